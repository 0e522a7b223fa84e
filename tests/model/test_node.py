"""One machine of several that train a run: what a user sees where options are wrong or the machines do not meet."""

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


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["--node", "0", "--nodes", "2", "--first", "nohost"], "--first is 'nohost', but it must be"),
        (["--node", "0", "--nodes", "2", "--first", "host:port"], "--first is 'host:port', but it must be"),
        (["--node", "0", "--nodes", "2", "--first", ":29500"], "--first is ':29500', but it must be"),
        (["--node", "0", "--nodes", "2", "--first", "host:70000"], "--first is 'host:70000', but it must be"),
        (["--node", "2", "--nodes", "2", "--first", "host:29500"], "--node is 2, but of 2 machines it must be"),
        (["--node", "0", "--nodes", "1", "--ranks", "0", "--first", "host:29500"], "--ranks is 0, but it must be"),
    ],
)
def test_options_that_no_group_of_machines_can_have_are_one_line(tmp_path, capsys, place, said):
    assert main([*place, str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"model.node: {said}")
