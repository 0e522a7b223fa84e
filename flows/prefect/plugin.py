"""Let Prefect find a deployment by its bare name: `prefect deployment run full-study`.

Prefect itself accepts only `<flow>/<deployment>`. The entry point `prefect.plugins` is public (pyproject.toml switches
the plugin on); replacing a method of the client is not, so a test runs the real command. `full-study/full-study` works
without this plugin.
"""

from __future__ import annotations

from typing import Any

from prefect.plugins import register_hook

PREFECT_PLUGIN_API_REQUIRES = ">=0.1,<1"


@register_hook
def setup_environment(*, ctx: Any) -> None:
    """Replace the client's look-up: search a name without a slash among all deployments."""
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
    from prefect.exceptions import ObjectNotFound

    by_full_name = PrefectClient.read_deployment_by_name

    async def read_deployment_by_name(self: PrefectClient, name: str) -> Any:
        if "/" in name:
            return await by_full_name(self, name)
        wanted = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
        found = await self.read_deployments(deployment_filter=wanted)
        if len(found) == 1:
            return found[0]
        if not found:
            raise ObjectNotFound(http_exc=None)  # the command then says: Deployment 'x' not found!
        raise ValueError(f"{len(found)} deployments are named {name!r}: say <flow>/<deployment>")

    PrefectClient.read_deployment_by_name = read_deployment_by_name
