"""One machine of several that train a run: what a user sees where the machines do not find each other."""

import pytest

import model.node
from model.node import main
from model.training.ranks.launch import free_port
from tests.model.packed_folder import write_run


@pytest.mark.parametrize("node", ["0", "1"])
def test_a_node_without_the_others_ends_with_one_line(tmp_path, monkeypatch, capsys, node):
    monkeypatch.setattr(model.node, "JOIN_SECONDS", 1)
    folder = write_run(tmp_path)
    place = ["--node", node, "--nodes", "2", "--first", f"127.0.0.1:{free_port()}"]
    assert main([*place, str(folder), "--", "--stop-at", "100"]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith(str(folder))]
    assert line.startswith(f"{folder}: node {node} of 2 got no connection: ")
    assert not (folder / "steps.csv").exists()
