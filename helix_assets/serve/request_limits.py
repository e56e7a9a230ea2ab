"""Limits of a connection before it has proven anything: the size of a request's head, its time, a message.

uvicorn's faster parser, httptools, keeps an endless header in memory as long as it grows; h11 gives up at a size.
Neither gives up on a client that sends a byte a minute: that is done here. Not here: who is let in (`guard`).
"""

from __future__ import annotations

import asyncio
import logging

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from helix_assets.serve.guard import BODY_BYTES

HEAD_BYTES = 32 << 10
REQUEST_SECONDS = 20.0
_NOISE = (
    "ASGI callable returned without completing handshake",  # whenever the guard refuses a WebSocket
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
)


class HurryingProtocol(H11Protocol):
    """HTTP that hangs up if a request that has begun does not arrive completely in time."""

    seconds = REQUEST_SECONDS
    _hurry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the timer with a request; stop it at its end, or when a WebSocket takes over."""
        is_coming = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not is_coming or self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._rest()
        elif self._hurry is None:
            self._hurry = self.loop.call_later(self.seconds, self._hang_up)

    def _rest(self) -> None:
        if self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _hang_up(self) -> None:
        if self.conn.our_state is h11.IDLE and not self.transport.is_closing():
            self.send_400_response("The request took too long to arrive.")
        else:
            self.transport.abort()


def limited(app: ASGIApp) -> uvicorn.Config:
    """The uvicorn configuration of an app: these limits, and no log lines about what clients send."""
    logging.getLogger("uvicorn.error").addFilter(_is_worth_saying)
    return uvicorn.Config(
        app,
        http=HurryingProtocol,
        h11_max_incomplete_event_size=HEAD_BYTES,
        ws_max_size=BODY_BYTES,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # no proxy is trusted to name the client
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,  # an open browser tab holds its WebSocket for ever
    )


def _is_worth_saying(record: logging.LogRecord) -> bool:
    """Leave out lines with which any page or program could fill the log."""
    return not record.getMessage().startswith(_NOISE)
