"""Files of the pipeline: what is written is read back, what is wrong is refused with its place."""

import json

import numpy as np
import pytest

from aes import formats
from aes.formats import (
    Abilities,
    Annotation,
    FormatError,
    Matrix,
    Pick,
    Profile,
    Profiles,
    Segment,
    Selection,
)

GOOD = {
    "env": "a", "policy": "base", "instance": 0, "trajectory": 1,
    "segments": [{"start": 0, "end": 2, "core": "plan path", "soft": ["write answer"]}],
}  # fmt: skip


def changed(**changes):
    return {**GOOD, **changes}


def segment(**changes):
    return changed(segments=[{**GOOD["segments"][0], **changes}])


def test_annotations_round_trip(tmp_path):
    rows = [
        Annotation(
            "a", "base", 0, 1, (Segment(0, 2, "plan path", ("write answer",)), Segment(2, 2, "", ("x y",)))
        ),
        Annotation("b", "strong", 0, 0, (), True),
    ]
    formats.write_annotations(tmp_path / "a.jsonl", rows)
    assert formats.read_annotations(tmp_path / "a.jsonl") == rows
    assert rows[0].segments[1].own == "x y"
    assert formats.annotation({**GOOD, "annotator": "offline"}).segments[0].soft == ("write answer",)


@pytest.mark.parametrize(
    "row, message",
    [
        ([], "not an object"),
        ({k: v for k, v in GOOD.items() if k != "policy"}, "no 'policy'"),
        (changed(instance="0"), "instance must be int"),
        (changed(instance=True), "instance must be int"),
        (changed(success=1), "success must be"),
        (segment(end=None), "segment 0: end must be int"),
        (segment(start=3), "no span of steps"),
        (segment(core="", soft=[]), "neither a core nor a soft label"),
        (segment(soft="write answer"), "soft a list"),
        (segment(soft=[1]), "must be strings"),
        (segment(soft=[""]), "'' is no label"),
        (segment(core="_."), "'_.' is no label"),
        (changed(segments=[segment(start=s)["segments"][0] for s in (1, 0)]), "before segment 0"),
    ],
)
def test_a_bad_annotation_is_refused(tmp_path, row, message):
    file = tmp_path / "annotations.jsonl"
    file.write_text(json.dumps(GOOD) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(FormatError, match=f"annotations.jsonl:2: .*{message}"):
        formats.read_annotations(file)


def test_duplicates_torn_lines_and_missing_files_are_refused(tmp_path):
    file = tmp_path / "annotations.jsonl"
    with pytest.raises(FormatError, match=r"aes\.annotate"):
        formats.read_annotations(file)
    file.write_text("\n")
    with pytest.raises(FormatError, match="no annotations"):
        formats.read_annotations(file)
    file.write_text((json.dumps(GOOD) + "\n") * 2)
    with pytest.raises(FormatError, match="again, first on line 1"):
        formats.read_annotations(file)
    file.write_text(json.dumps(GOOD)[:-9])
    with pytest.raises(FormatError, match=r"annotations\.jsonl:1"):
        formats.read_annotations(file)


def test_profiles_round_trip(tmp_path):
    profile = Profile(
        4, {"plan path": 1.0}, {"write answer": 0.25}, {("plan path", "write answer"): 0.25}, {"x": 0.05}
    )
    Profiles({"a": profile}, {"stage": "merge"}).save(tmp_path / "p.json")
    assert Profiles.load(tmp_path / "p.json").envs == {"a": profile}
    text = (tmp_path / "p.json").read_text()
    for good, bad, message in (
        ('"write answer": 0.25', '"plan path": 0.25', "are core and soft"),
        ("1.0", "1.5", "outside"),
        ('"trajectories"', '"trajectorie"', "no 'trajectories'"),
    ):
        assert good in text
        (tmp_path / "bad.json").write_text(text.replace(good, bad))
        with pytest.raises(FormatError, match=f"a: .*{message}"):
            Profiles.load(tmp_path / "bad.json")


def test_matrices_round_trip(tmp_path):
    values = np.asarray([[1.0, -0.25], [-0.25, 1.0]])
    matrix = Matrix(("b", "a"), values, {"stage": "profile"}, ("a",))
    matrix.save(tmp_path / "m.json")
    loaded = Matrix.load(tmp_path / "m.json", "profile")
    np.testing.assert_array_equal(loaded.values, values)
    assert (loaded.envs, loaded.low_signal) == (("b", "a"), ("a",))
    np.testing.assert_array_equal(loaded.of(["a", "b"]), values[::-1, ::-1])
    with pytest.raises(ValueError, match="profile matrix has no c"):
        loaded.of(["a", "c"])
    for bad in ([[1.0]], [[1.0, 0.5], [0.4, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, np.nan], [np.nan, 1.0]]):
        Matrix(("b", "a"), np.asarray(bad), {}).save(tmp_path / "bad.json")
        with pytest.raises(FormatError, match=r"bad\.json"):
            Matrix.load(tmp_path / "bad.json", "profile")


def test_selections_abilities_and_heads(tmp_path):
    (tmp_path / "in").write_text("x")
    head = formats.made("select", {"max_k": None, "sizes": (1, 2)}, annotations=tmp_path / "in", other=None)
    selection = Selection("aes", (Pick("a", {"gain": 1.5}), Pick("b", {"gain": 0.5})), "all covered", head)
    selection.save(tmp_path / "s.json")
    loaded = Selection.load(tmp_path / "s.json")
    assert loaded.picks == selection.picks and loaded.envs == ("a", "b")
    assert formats.up_to_date(tmp_path / "s.json", head)
    (tmp_path / "in").write_text("y")
    later = formats.made("select", {"max_k": None, "sizes": (1, 2)}, annotations=tmp_path / "in")
    assert not formats.up_to_date(tmp_path / "s.json", later)
    assert not formats.up_to_date(tmp_path / "nothing.json", head)
    with pytest.raises(FormatError, match="does not exist"):
        formats.made("select", {}, annotations=tmp_path / "nothing")
    abilities = Abilities({"plan path": ["find route", "plan path"]}, [], head)
    abilities.save(tmp_path / "abilities.json")
    assert Abilities.load(tmp_path / "abilities.json").members == abilities.members


def test_json_for_people():
    data = {"made": {"a": 1}, "values": [[0.25] * 100, [1.0]], "long": {"x" * 60: "y" * 60}, "é": []}
    text = formats.dumps(data)
    assert json.loads(text) == data
    assert len(text.splitlines()) == 11 and ' "é": []' in text
