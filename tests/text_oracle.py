"""The text formats in plain Python: the oracle of the native parser, line by line and slow.

It says what a line means, or where and why it means nothing. Chunks, dictionaries and number types
are the native parser's own business.
"""

import math
import re
from dataclasses import dataclass, field

_BLANKS = re.compile(rb"[ \t]*")
_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(inf(inity)?|nan(\([a-z0-9_]*\))?)", re.IGNORECASE)
_SVMLIGHT_TOKEN = re.compile(rb"[^\x00-\x20#]*")
_VW_WORD = re.compile(rb"[^\x00-\x20|]*")
_VW_NAME = re.compile(rb"[^\x00-\x20|:]*")
_LARGEST_INDEX = 2**63 - 1


class LineError(Exception):
    """A line cannot be parsed.

    Parameters
    ----------
    kind : str
        The native parser's name for the reason.
    position : int
        The byte of the line at fault, counted from 0.
    """

    def __init__(self, kind: str, position: int) -> None:
        super().__init__(kind, position)
        self.kind = kind
        self.position = position


@dataclass
class Row:
    """What one line says.

    `label` is a number, a word, or None; `features` are pairs of an index (svmlight) or a full
    name (Vowpal Wabbit) and a value; `namespaces` are those of the features.
    """

    label: float | str | None = None
    weight: float = 1.0
    tag: str = ""
    features: list[tuple[int | str, float]] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)


def split_lines(data: bytes) -> list[bytes]:
    r"""Return the lines without their ends; a carriage return before the newline belongs to it.

    Examples
    --------
    >>> split_lines(b"1 1:2\r\n-1 3:4")
    [b'1 1:2', b'-1 3:4']
    """
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def parse_number(text: bytes, position: int) -> float:
    """Return the double nearest to a decimal number."""
    if _NUMBER.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise LineError("overflow", position)
        return value
    raise LineError("not_finite" if _NOT_FINITE.fullmatch(text) else "not_a_number", position)


def _parse_text(text: bytes, position: int) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise LineError("invalid_utf8", position) from None


def _skip_blanks(line: bytes, position: int) -> int:
    match = _BLANKS.match(line, position)
    assert match is not None
    return match.end()


def _token(pattern: re.Pattern[bytes], line: bytes, position: int) -> bytes:
    match = pattern.match(line, position)
    assert match is not None
    return match[0]


def _is_control(line: bytes, position: int) -> bool:
    return position < len(line) and line[position] < 0x20 and line[position] != 0x09


def parse_svmlight(line: bytes, *, tokens: bool = False, unlabelled: bool = False) -> Row | None:
    """Return the row of a svmlight line, or None for a blank line or a comment.

    Parameters
    ----------
    line : bytes
        The line without its end.
    tokens : bool
        Labels are words rather than numbers.
    unlabelled : bool
        A line may start with its first feature.

    Examples
    --------
    >>> parse_svmlight(b"+1 3:0.5 # note").features
    [(3, 0.5)]
    """
    at = _skip_blanks(line, 0)
    if at == len(line) or line[at] == ord("#"):
        return None
    if _is_control(line, at):
        raise LineError("control_byte", at)
    row = Row()
    token = _token(_SVMLIGHT_TOKEN, line, at)
    if b":" in token:
        if not unlabelled:
            raise LineError("label_is_feature", at)
    else:
        row.label = _parse_text(token, at) if tokens else parse_number(token, at)
        at = _skip_blanks(line, at + len(token))
    if line.startswith(b"qid:", at):
        token = _token(_SVMLIGHT_TOKEN, line, at)
        digits = token[4:]
        if not re.fullmatch(rb"[0-9]+", digits) or _is_too_large(digits):
            raise LineError("query_not_integer", at)
        at += len(token)
    while True:
        at = _skip_blanks(line, at)
        if at == len(line) or line[at] == ord("#"):
            return row
        token = _token(_SVMLIGHT_TOKEN, line, at)
        row.features.append(_parse_pair(token, at))
        at += len(token)


def _is_too_large(digits: bytes) -> bool:
    digits = digits.lstrip(b"0")
    return len(digits) > 19 or int(digits or b"0") > _LARGEST_INDEX


def _parse_pair(token: bytes, at: int) -> tuple[int, float]:
    if not token:
        raise LineError("control_byte", at)
    digits = _token(re.compile(rb"[0-9]*"), token, 0)
    rest = token[len(digits) :]
    if digits and _is_too_large(digits):
        raise LineError("index_too_large", at)
    if not digits or not rest.startswith(b":"):
        if token.startswith(b"qid:"):
            raise LineError("query_misplaced", at)
        raise LineError("colon_missing" if digits and not rest else "index_not_integer", at)
    if rest == b":":
        raise LineError("value_missing", at)
    return int(digits), parse_number(rest[1:], at + len(digits) + 1)


def parse_vw(line: bytes, *, tokens: bool = False, unlabelled: bool = False) -> Row | None:
    """Return the row of a line of Vowpal Wabbit text, or None for a blank line.

    Parameters
    ----------
    line : bytes
        The line without its end.
    tokens : bool
        Labels are words rather than numbers.
    unlabelled : bool
        A line may have no label.

    Examples
    --------
    >>> parse_vw(b"1 |user age:0.5 | plain").features
    [('user^age', 0.5), ('plain', 1.0)]
    """
    start = _skip_blanks(line, 0)
    if start == len(line):
        return None
    bar = line.find(b"|")
    if bar < 0:
        raise LineError("bar_missing", start)
    row = Row()
    base = _parse_vw_head(line, start, bar, row, tokens=tokens, unlabelled=unlabelled)
    for segment in re.finditer(rb"\|[^|]*", line[bar:]):
        _parse_vw_segment(line, bar + segment.start() + 1, bar + segment.end(), row)
    if base is not None:  # the line is right, and nothing can learn from it
        raise LineError("base_prediction", base)
    return row


def _parse_vw_head(
    line: bytes, at: int, bar: int, row: Row, *, tokens: bool, unlabelled: bool
) -> int | None:
    """Read label, weight and tag; return where a base prediction is, if there is one."""
    words: list[tuple[int, bytes]] = []
    while (at := _skip_blanks(line, at)) != bar:
        if len(words) == 4:
            raise LineError("too_many_label_fields", at)
        word = _token(_VW_WORD, line, at)
        if _is_control(line, at + len(word)):
            raise LineError("control_byte", at + len(word))
        words.append((at, word))
        at += len(word)
    if words:
        at, word = words[-1]
        if at + len(word) == bar or word.startswith(b"'"):
            row.tag = _parse_text(word, at).removeprefix("'")
            words.pop()
    if not words:
        if unlabelled:
            return None
        raise LineError("label_missing", bar)
    if len(words) > 3:
        raise LineError("too_many_label_fields", words[3][0])
    row.label = _parse_text(words[0][1], words[0][0]) if tokens else parse_number(*words[0][::-1])
    if len(words) > 1:
        row.weight = parse_number(*words[1][::-1])
    base = parse_number(*words[2][::-1]) if len(words) > 2 else 0.0
    if row.weight < 0:
        raise LineError("negative_weight", words[1][0])
    return words[2][0] if base else None


def _parse_vw_segment(line: bytes, at: int, end: int, row: Row) -> None:
    start = at
    name = _token(_VW_NAME, line, at)
    space = _parse_text(name, start)
    at += len(name)
    scale = 1.0
    if line[at : at + 1] == b":":
        if not name:
            raise LineError("namespace_missing", start)
        scale, at = _parse_vw_value(line, start, at + 1)
    elif _is_control(line, at):
        raise LineError("control_byte", at)
    unnamed = 0
    while (at := _skip_blanks(line, at)) < end:
        start = at
        name = _token(_VW_NAME, line, at)
        text = _parse_text(name, start)
        at += len(name)
        value = 1.0
        if line[at : at + 1] == b":":
            value, at = _parse_vw_value(line, start, at + 1)
        elif _is_control(line, at):
            raise LineError("control_byte", at)
        if not name:
            text = str(unnamed)
            unnamed += 1
        if math.isinf(value * scale):
            raise LineError("overflow", start)
        row.features.append((f"{space}^{text}" if space else text, value * scale))
        row.namespaces.append(space)


def _parse_vw_value(line: bytes, start: int, at: int) -> tuple[float, int]:
    word = _token(_VW_WORD, line, at)
    if not word:
        raise LineError("value_missing", start)
    return parse_number(word, at), at + len(word)
