"""A source that held pictures says so, once, whichever command prints its warnings."""

from types import SimpleNamespace

from dreamer_study.flows.running.curation_warnings import stage_warnings, warnings


def test_pictures_that_are_left_out_are_a_warning() -> None:
    results = {"counts": [], "objects": 16}
    output = SimpleNamespace(
        stage="documents", results=results, configuration={"source": {"name": "chats"}}
    )
    expected = (
        "source 'chats': 16 documents held a picture or another part that is no text: only their"
        " text is kept"
    )
    assert warnings([output]) == stage_warnings(output) == [expected]
    results["objects"] = 0
    assert warnings([output]) == []
