"""The service: look-ups, kernels and reports over HTTP, for programs without Python and people with a browser."""

from tuner.service.settings import DEFAULT_PORT, TOKEN_VARIABLE, Settings, is_loopback, read_token, refuse_open_bind

__all__ = ["DEFAULT_PORT", "TOKEN_VARIABLE", "Settings", "is_loopback", "read_token", "refuse_open_bind"]
