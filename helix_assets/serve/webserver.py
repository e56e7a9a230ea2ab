"""The webserver process: Dagster's UI behind the guard, on a socket that the supervisor has bound.

Started by `helix_assets.serve.up` as `python -m helix_assets.serve.webserver`.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import uvicorn
from dagster import DagsterInstance
from graphql import ASTValidationRule, GraphQLError, OperationDefinitionNode, OperationType
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from helix_assets.serve.dagster_private import (
    DagsterWebserver,
    WorkspaceProcessContext,
    WorkspaceRequestContext,
    workspace,
)
from helix_assets.serve.guard import Guard, GuardPolicy
from helix_assets.serve.request_limits import limited
from helix_assets.serve.token import ui_token

_STATEMENT_TIMEOUT_MS = 15_000
_POOL_RECYCLE_SECONDS = 3600
_POOL_MAX_OVERFLOW = 20
_POLL_RATE_MS = 2000


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


def serve(listener: socket.socket, locations: Path, policy: GuardPolicy) -> None:
    """Answer on a listening socket until a signal comes. DAGSTER_HOME names the instance."""
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(_STATEMENT_TIMEOUT_MS, _POOL_RECYCLE_SECONDS, _POOL_MAX_OVERFLOW)
        with workspace(instance, locations, read_only=policy.read_only) as context:
            uvicorn.Server(limited(build_app(context, policy))).run(sockets=[listener])


@click.command()
@click.option("--fd", type=int, required=True, help="The listening socket.")
@click.option("--host", required=True, help="The address it is bound to.")
@click.option(
    "--workspace", "locations", type=click.Path(path_type=Path), required=True, help="workspace.yaml to load."
)
@click.option("--token-in", type=click.Path(path_type=Path), help="Data folder whose ui.token every request needs.")
@click.option("--read-only", is_flag=True, help="Refuse every change.")
def main(fd: int, host: str, locations: Path, token_in: Path | None, read_only: bool) -> None:
    """Serve the guarded UI (started by `helix up`, not by hand)."""
    os.umask(0o077)
    token = ui_token(token_in) if token_in else None
    listener = socket.socket(fileno=fd)
    policy = GuardPolicy(port=listener.getsockname()[1], host=host, read_only=read_only, token=token)
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has shut down
        serve(listener, locations, policy)


if __name__ == "__main__":
    main()
