"""What Prefect needs: the plugin, the server and the deployments."""
