"""Asi et al.: private online learning."""
