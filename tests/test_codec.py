"""Reading answers: what each codec accepts and refuses, and that nothing makes it raise."""

import random
import time

import numpy as np
import pytest

from jaxenv import codec
from jaxenv.codec import BLANK, UNREADABLE, Choice, Command, Grid, Ints, Lists, Words

MOVE = Choice(("up", "down", "left", "right"), {"u": "up", "w": "up"})
PAIR = Ints(2, -5, 99, "two integers", (2, 3))
BOARD = Grid(2, 3, 0, 9, "the board", "1 2\n3 4")
WIDE = Grid(2, 3, 0, 99, "the board", "10 2\n3 4")
TREE = Lists(("pre", "post"), 3, 1, 99, {"pre": [1, 2], "post": [2, 1]})
WAY = Words("UDLR", 5, "the letters of a way", "RRD")
JUMPS = Words(("a1-b3", "b3-a1", "No"), 3, "the jumps in order, or No", ("a1-b3", "b3-a1"))
PUSH = Command("move", 3, 0, 9, ("undo", "stop"), "a move of three integers, undo or stop", "move 1 2 3")
CODECS = {
    "choice": MOVE, "ints": PAIR, "grid": BOARD, "wide": WIDE, "lists": TREE, "letters": WAY, "words": JUMPS,
    "command": PUSH,
}  # fmt: skip
each = pytest.mark.parametrize("name", CODECS)


@pytest.mark.parametrize(
    "reply, expected",
    [
        ("<answer>up</answer>", "up"),
        ("<answer> \n up\t</answer>\nDone.", "up"),
        ("<answer>left</answer> no, <answer>up</answer>", "up"),
        ("<answer>left<answer>up</answer>", "up"),
        ("<answer>up</answer> <answer>left", "up"),  # the last one was never closed
        ("<answer></answer>", ""),
        ("\\boxed{up}", "up"),
        ("\\boxed{left} and \\boxed{up}.", "up"),
        ("\\boxed{up} and \\boxed{le", "up"),
        ("\\boxed{\\text{up}}", "\\text{up}"),
        ("\\boxed{\\boxed{up}}", "up"),
        ("} }} { \\boxed{{a}{b}}", "{a}{b}"),
        ("<answer>left</answer> so \\boxed{up}", "up"),
        ("\\boxed{left} so <answer>up</answer>", "up"),
        ("<answer>\\boxed{up}</answer>", "up"),
        ("\\boxed{<answer>up</answer>}", "up"),
        ('<answer>{"a": [1]}</answer>', '{"a": [1]}'),
        ("up", None),
        ("", None),
        ("<answer>up", None),
        ("up</answer>", None),
        ("<ANSWER>up</ANSWER>", None),
        ("\\boxed{up", None),
        ("boxed{up}", None),
    ],
)
def test_extract(reply, expected):
    assert codec.extract(reply) == expected


def test_extract_limits():
    assert codec.extract(f"<answer>{'9' * codec.MAX_ANSWER}</answer>") == "9" * codec.MAX_ANSWER
    assert codec.extract(f"<answer>{'9' * (codec.MAX_ANSWER + 1)}</answer>") is None
    assert (
        codec.extract(f"<answer>up</answer> \\boxed{{{' ' * (codec.MAX_ANSWER + 1)}}}") is None
    )  # the last counts
    far = " " * (codec.MAX_REPLY + 1)
    assert codec.extract(far + "<answer>up</answer>") == "up"
    assert codec.extract("<answer>up</answer>" + far) is None


@pytest.mark.parametrize(
    "piece",
    [
        "<answer>",
        "</answer>",
        "\\boxed{",
        "{",
        "}",
        "<",
        "\\boxed{}",
        "<answer></answer>",
        "<answer>\\boxed{",
    ],
)
def test_extract_takes_linear_time(piece):
    start = time.process_time()
    codec.extract(piece * (codec.MAX_REPLY // len(piece)))
    assert time.process_time() - start < 2


ACCEPTED = {
    "choice": {
        "up": [0],
        "DOWN": [1],
        " Left ": [2],
        "[right]": [3],
        '"up".': [0],
        "(w)": [0],
        "U": [0],
        "'left'": [2],
    },
    "ints": {
        "2, 3": [2, 3],
        "2 3": [2, 3],
        "(2,3)": [2, 3],
        "[2; 3]": [2, 3],
        "{2 3}": [2, 3],
        "2\n3": [2, 3],
        "-5,+99": [-5, 99],
        "002 3,": [2, 3],
        "0 -0": [0, 0],
    },
    "grid": {
        "1 2 3\n4 5 6": [1, 2, 3, 4, 5, 6],
        "123\n456": [1, 2, 3, 4, 5, 6],
        "[[1,2,3],[4,5,6]]": [1, 2, 3, 4, 5, 6],
        "[1, 2]\n[3, 4]": [1, 2, BLANK, 3, 4, BLANK],
        "| 1 | 2 |\n\n| 3 | 4 |": [1, 2, BLANK, 3, 4, BLANK],
        "7": [7] + [BLANK] * 5,
        "1 2\r\n3": [1, 2, BLANK, 3, BLANK, BLANK],
    },
    "wide": {
        "12 3\n4": [12, 3, BLANK, 4, BLANK, BLANK],
        "99,98,97": [99, 98, 97, BLANK, BLANK, BLANK],
        "12": [12] + [BLANK] * 5,
    },
    "lists": {
        '{"pre": [1, 2, 3], "post": [4, 5, 6]}': [1, 2, 3, 4, 5, 6],
        '{"post":[],"pre":[99]}': [99] + [BLANK] * 5,
        ' {"pre": [1],\n "post": [2, 1]} ': [1, BLANK, BLANK, 2, 1, BLANK],
    },
    "letters": {
        "RRD": [3, 3, 1, BLANK, BLANK],
        " u, d ,l;r U.": [0, 1, 2, 3, 0],
        '["U", "D"]': [0, 1, BLANK, BLANK, BLANK],
        "UD\nLR": [0, 1, 2, 3, BLANK],
    },
    "words": {
        "A1-b3, B3-A1": [0, 1, BLANK],
        '["a1-b3","no"]': [0, 2, BLANK],
        "NO.": [2, BLANK, BLANK],
        "b3-a1\nb3-a1 a1-b3": [1, 1, 0],
    },
    "command": {
        "move 1 2 3": [0, 1, 2, 3],
        "1, 2, 3": [0, 1, 2, 3],
        "Move [0; 0; 9]": [0, 0, 0, 9],
        "('move', [4, 5, 6])": [0, 4, 5, 6],
        "move: (7 8 9)": [0, 7, 8, 9],
        "Undo": [1, BLANK, BLANK, BLANK],
        "'stop'.": [2, BLANK, BLANK, BLANK],
    },
}

# Nothing readable to any codec.
JUNK = [
    "",
    " ",
    "?",
    "None",
    "True",
    "null",
    "NaN",
    "Infinity",
    "[]",
    "()",
    "{}",
    "[[]]",
    "1e5",
    "0x10",
    "1_000",
    "1.0",
    "1 - 2",
    "__import__('os')",
    "9" * 4000,
    "-" * 4000,
    "[" * 4000,
    '{"a":' * 800,
    "[" * 2000 + "]" * 2000,
    "\u0661\u0662",
    "\uff11 \uff12",
    "\u00b2 \u00b3",
    "1\u00bd",
    "\u2212" + "1 2",
    "\x00",
    "\ud800",
    "\U0001f600",
    "<answer>",
    "2 3 </answer> 4",
    ",;,",
    "+ 1",
    "--1 2",
]

REFUSED = {
    "choice": ["upp", "up down", "0", "up, down", "u p", "upright"],
    "ints": [
        "2",
        "2 3 4",
        "100 1",
        "-6 1",
        "2,3.0",
        "2 three",
        "1e1 2",
        "True False",
        "[2, 3",
        "((2, 3))",
        "0000000002 3",
        "99999999999 1",
        "2147483648 1",
        "-2147483648 1",
    ],
    "grid": ["1 2 3 4", "1\n2\n3", "10 2", "-1 2", "1 x", "1 2 3\n4 5 6\n7", "1.5", "1234"],
    "wide": ["100", "1234\n1", "-1", "1 2 3 4"],
    "lists": [
        '{"pre": [1]}',
        '{"pre": [1], "post": [1], "in": [1]}',
        '{"pre": [1, 2, 3, 4], "post": []}',
        '{"pre": [0], "post": [1]}',
        '{"pre": [100], "post": [1]}',
        '{"pre": [1.0], "post": [1]}',
        '{"pre": [true], "post": [1]}',
        '{"pre": ["1"], "post": [1]}',
        '{"pre": 1, "post": [1]}',
        '{"pre": [[1]], "post": [1]}',
        '{"pre": [1e0], "post": [1]}',
        '{"pre": [NaN], "post": [1]}',
        '{"pre": [1], "pre": [2], "post": [1]}',
        '{"pre": [' + "9" * 3000 + '], "post": [1]}',
        "{'pre': [1], 'post': [1]}",
        '[["pre", [1]], ["post", [1]]]',
        '{"pre": ' + "[" * 900 + "]" * 900 + ', "post": [1]}',
        '{"pre": {}, "post": [1]}',
    ],
    "letters": ["X", "RRDDLU", "R-R", "RR DX", "R.R", "right"],
    "words": ["a1b3", "a1-b3b3-a1", "a1 - b3", "no no no no", "a1-b3; maybe", "a1"],
    "command": [
        "move",
        "move 1 2",
        "1 2 3 4",
        "move 1 2 10",
        "move -1 2 3",
        "stop 1 2 3",
        "undo stop",
        "jump 1 2 3",
    ],
}


@each
def test_accepts(name):
    for answer, expected in ACCEPTED[name].items():
        read = CODECS[name].parse(answer)
        assert read is not None, answer
        assert read.dtype == np.int32 and read.tolist() == expected, answer


@each
def test_refuses(name):
    for answer in JUNK + REFUSED[name]:
        assert CODECS[name].parse(answer) is None, answer[:50]
        read = codec.read(CODECS[name], f"<answer>{answer}</answer>")
        assert read.shape == (CODECS[name].size,) and read.dtype == np.int32
        if "answer>" not in answer:
            assert (read == UNREADABLE).all()


@each
def test_never_raises(name):
    rng = random.Random(0)
    seeds = [*ACCEPTED[name], *REFUSED[name], *JUNK[:24]]
    alphabet = "0123456789 ,;-+.[](){}|\n\"':ejE\u0663\u00b2\ufeff\u2028\x00" + "".join(
        CODECS[name].instruction
    )
    for k in range(10_000):
        if k % 2:
            answer = "".join(rng.choices(alphabet, k=rng.randrange(40)))
        else:
            answer = rng.choice(seeds)
            cut = rng.randrange(len(answer) + 1)
            answer = answer[:cut] + rng.choice(alphabet) + answer[cut + rng.randrange(3) :]
        read = CODECS[name].parse(answer)
        if read is not None:  # and what was read is in range and can be written
            assert read.shape == (CODECS[name].size,) and read.dtype == np.int32
            np.testing.assert_array_equal(CODECS[name].parse(CODECS[name].format(read)), read)


@each
def test_round_trip(name):
    rng = np.random.default_rng(0)
    for _ in range(200):
        action = CODECS[name].random(rng)
        assert action.shape == (CODECS[name].size,) and action.dtype == np.int32
        reply = codec.write(CODECS[name], action)
        np.testing.assert_array_equal(
            codec.read(CODECS[name], f"<answer>1</answer> or rather {reply}."), action
        )


@each
def test_instruction_shows_a_readable_example(name):
    assert (codec.read(CODECS[name], CODECS[name].instruction) != UNREADABLE).all()


def test_declarations_that_cannot_work():
    with pytest.raises(ValueError, match="upper and lower"):
        Choice(("a", "A"))
    with pytest.raises(ValueError, match="absent place"):
        Grid(2, 2, -1, 3, "a board", "1")
    with pytest.raises(ValueError, match="absent place"):
        Lists(("a",), 2, -1, 3, {"a": [1]})
    with pytest.raises(ValueError, match="upper and lower"):
        Words(("a", "A"), 2, "letters", "a")
    with pytest.raises(KeyError):
        Choice(("a", "b"), {"c": "d"})
