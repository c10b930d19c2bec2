"""A server that holds labels and ledgers, and the curator of an analyst who asks it."""

from labeldp.serve.client import RemoteCurator, ServerConnection, connect
from labeldp.serve.config import (
    NO_ISOLATION,
    Analyst,
    Config,
    DatasetConfig,
    ServerLimits,
    check_analyst,
    hashed,
    new_token,
)
from labeldp.serve.front import serve
from labeldp.serve.log import read_log

__all__ = [
    "NO_ISOLATION",
    "Analyst",
    "Config",
    "DatasetConfig",
    "RemoteCurator",
    "ServerConnection",
    "ServerLimits",
    "check_analyst",
    "connect",
    "hashed",
    "new_token",
    "read_log",
    "serve",
]
