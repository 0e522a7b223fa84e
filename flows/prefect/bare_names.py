"""Let Prefect find a deployment by its bare name, and send the secret to this user's own server.

The command is `prefect deployment run full-study`. Prefect itself accepts only
`<flow>/<deployment>`. The entry point `prefect.plugins` is public (pyproject.toml switches the
plugin on); replacing a method of the client is not, so a test runs the real command.
`full-study/full-study` works without this plugin.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from prefect.plugins import SetupResult, register_hook

PREFECT_PLUGIN_API_REQUIRES = ">=0.1,<1"


@register_hook
def setup_environment(*, ctx: Any) -> SetupResult | None:
    """Replace the client's look-up, and set the secret unless another one is set."""
    _find_bare_names()
    from dreamer_study.flows.prefect.server import secret_of

    if os.environ.get("PREFECT_API_AUTH_STRING"):
        return None
    secret = secret_of(ctx.api_url or "")
    if not secret:
        return None
    variables = {"PREFECT_API_AUTH_STRING": secret}
    return SetupResult(env=variables, note="the secret of this user's own server")


def _find_bare_names() -> None:
    """Let the client search a name without a slash among all deployments.

    Where no server answers, that is one line.
    """
    import httpx
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
    from prefect.exceptions import ObjectNotFound

    by_full_name = PrefectClient.read_deployment_by_name

    async def read_deployment_by_name(self: PrefectClient, name: str) -> Any:
        try:
            if "/" in name:
                return await by_full_name(self, name)
            wanted = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
            deployments = await self.read_deployments(deployment_filter=wanted)
        except httpx.ConnectError:
            address = str(self.api_url).rstrip("/")
            print(f"no Prefect server answers at {address}; `make up` starts one", file=sys.stderr)
            raise SystemExit(1) from None
        if len(deployments) == 1:
            return deployments[0]
        if not deployments:
            raise ObjectNotFound(http_exc=None)  # the command then says: Deployment 'x' not found!
        count = len(deployments)
        raise ValueError(f"{count} deployments are named {name!r}: say <flow>/<deployment>")

    PrefectClient.read_deployment_by_name = read_deployment_by_name
