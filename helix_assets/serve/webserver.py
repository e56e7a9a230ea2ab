"""Dagster's UI behind the guard, on a socket that the parent has bound.

Not here: the process that it runs in (`serve.process`).
"""

import asyncio
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from graphql import ASTValidationRule, GraphQLError, OperationDefinitionNode, OperationType
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from helix_assets.serve.dagster_private import (
    DagsterWebserver,
    WorkspaceProcessContext,
    WorkspaceRequestContext,
)
from helix_assets.serve.guard import Guard, GuardPolicy
from helix_assets.serve.request_limits import limited

_POLL_RATE_MS = 2000
_LOOK_S = 0.5
"""How long a signal to end waits."""


class NoMutations(ASTValidationRule):
    """GraphQL validation rule of the read-only mode: Dagster itself lets two mutations through there."""

    def enter_operation_definition(self, node: OperationDefinitionNode, *_: Any) -> None:
        """Report every mutation in the document."""
        if node.operation is OperationType.MUTATION:
            self.report_error(GraphQLError("This server is read-only.", [node]))


class Webserver(DagsterWebserver[WorkspaceProcessContext, WorkspaceRequestContext]):
    """Dagster's webserver, with a read-only mode without exceptions, and 4xx for malformed requests."""

    async def graphql_http_endpoint(self, request: Request) -> Response:
        """Answer a query. One that is not a text, or is nested too deep for Python, is refused."""
        try:
            response: Response = await super().graphql_http_endpoint(request)
            return response
        except (ValueError, TypeError, RecursionError):
            return PlainTextResponse("The query is not a text, or nested too deep.", 400)

    async def graphql_ws_endpoint(self, websocket: WebSocket) -> None:
        """Stream what is subscribed to. A malformed message ends the connection."""
        try:
            await super().graphql_ws_endpoint(websocket)
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
            await websocket.close(1007)

    def build_graphql_validation_rules(self) -> list[type[ASTValidationRule]]:
        """The rules that every GraphQL document is checked by before it runs."""
        rules = list(super().build_graphql_validation_rules())
        return [*rules, NoMutations] if self._process_context.read_only else rules


def build_app(context: WorkspaceProcessContext, policy: GuardPolicy) -> ASGIApp:
    """Dagster's whole ASGI app, WebSocket included, behind the guard."""
    return Guard(Webserver(context, live_data_poll_rate=_POLL_RATE_MS).create_asgi_app(), policy)


def answer(
    listener: socket.socket, app: ASGIApp, *, ready: Callable[[], object], ending: Callable[[], object] = lambda: None
) -> None:
    """Answer on a listening socket until a signal comes.

    `ready` is called once that works, `ending` as soon as the signal is there.
    """

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            ending()
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def main_loop(self) -> None:  # uvicorn's own wakes ten times a second, for the date in its answers
            while not self.should_exit:
                await asyncio.sleep(_LOOK_S)

    Server(limited(app)).run(sockets=[listener])
