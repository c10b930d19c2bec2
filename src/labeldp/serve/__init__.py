"""A door between labels and analysts: a server that holds labels and ledgers, and the curator of whoever asks it."""

from labeldp.serve.client import Door, RemoteCurator, connect
from labeldp.serve.config import NO_ISOLATION, Analyst, Config, Limits, Served, check_analyst, hashed, new_token
from labeldp.serve.front import serve
from labeldp.serve.log import read_log

__all__ = [
    "NO_ISOLATION",
    "Analyst",
    "Config",
    "Door",
    "Limits",
    "RemoteCurator",
    "Served",
    "check_analyst",
    "connect",
    "hashed",
    "new_token",
    "read_log",
    "serve",
]
