"""Whether a text begins as a call does that a model only writes down: told by its first characters, or not yet.

Models are trained on many forms (Hermes' and Qwen's tags, Llama's bare JSON and Python tag, Mistral's, DeepSeek's and
Phi's marks, Functionary's and Qwen-Coder's markup, Gemma's `tool_code`), and weak ones mix them. All have in common
that a name which was declared comes early.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from belljar.vendors import code_call
from belljar.vendors.request import ModelRequest
from belljar.wire.items import CodeInterpreterCall, CustomToolCall, FunctionCall, Json
from belljar.wire.tools import CustomTool, FunctionTool

LONGEST = 300
"""Characters within which it is told."""

FENCE = "```"
LANGUAGES = ("json", "jsonc", "xml", "tool_call", "tool_calls", "function_call", "tool_code", "")
"""Of a fence that may hold a call. Python is not among them: it may as well be an answer."""
PYTHON_TAG = "<|python_tag|>"
_DEEPSEEK, _DEEPSEEK_KIND = "<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>"
_WORDS = (
    "tool_call",
    "tool_calls",
    "tools",
    "tool",
    "function_call",
    "function_calls",
    "function-call",
    "functioncall",
    "function",
    "functions",
    "response",
    "json",
    "xml",
)
TAGS = (
    *(f"<{word}>" for word in _WORDS),
    "<|tool_call|>",
    "<|tool_calls|>",
    "<|START_ACTION|>",
    "[TOOL_CALLS]",
    "[tool_call]",
    "[tool_calls]",
    "functools",
    "<｜tool▁calls▁begin｜>",
    _DEEPSEEK,
)
ENDS = (
    *(f"</{word}>" for word in _WORDS),
    "<|/tool_call|>",
    "<|END_ACTION|>",
    "[/TOOL_CALLS]",
    "[/tool_call]",
    "[/tool_calls]",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "</invoke>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
)
NAMED = ("<function=", '<function name="', '<invoke name="', ">>>")
"""A name follows at once."""
NAME_KEYS = ("name", "function", "tool", "tool_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input")
_KEYS = (*NAME_KEYS, *ARGUMENT_KEYS, "type", "id", "tool_call_id", "tool_calls")
_SPACE = re.compile(r"\s*")
_IDENTIFIER = re.compile(r"[\w.-]*")


class Names:
    """What a model can call by name in one turn."""

    def __init__(self, code: Collection[str], functions: Mapping[str, Json], custom: Collection[str] = ()) -> None:
        self.code = frozenset(code)
        """Of the interpreter."""
        self.functions = functions
        """The caller's own, with the schema of their arguments."""
        self.custom = frozenset(custom)
        """Those of them that take free text."""
        self.all = self.code | self.functions.keys()

    @staticmethod
    def of(request: ModelRequest) -> Names:
        """What is declared; and what was called before, though it is not offered any more: a model may go on."""
        functions: dict[str, Json] = {}
        custom: set[str] = set()
        code = False
        for item in request.items:
            if type(item) is CodeInterpreterCall:
                code = True
            elif type(item) is FunctionCall:
                functions[item.name] = None
            elif type(item) is CustomToolCall:
                functions[item.name] = None
                custom.add(item.name)
        for tool in request.tools:
            if isinstance(tool, CustomTool):
                functions[tool.name] = None
                custom.add(tool.name)
            elif isinstance(tool, FunctionTool):
                functions[tool.name] = tool.parameters
        code = functions.pop(code_call.NAME, False) is not False or code
        return Names(code_call.ALIASES - functions.keys() if code else (), functions, custom)


def begins_call(text: str, names: Names, *, bare: bool = True) -> bool | None:
    """Whether a call of one of these begins here; None while that is open. `bare` ones stand in no tag."""
    try:
        return _Reader(text[:LONGEST]).calls(names, bare=bare)
    except _TooShort:
        return None if len(text) < LONGEST else False


class _TooShort(Exception):
    """The text ends where it could still go on as wanted."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def calls(self, names: Names, *, bare: bool) -> bool:
        tagged = False
        while True:
            self._space()
            if self._take(FENCE):
                language = self._line()
                if language is None:
                    return False
                if language == "tool_code":
                    return True
            elif tag := self._take(*TAGS):
                tagged = True
                if tag == _DEEPSEEK:
                    self._take(_DEEPSEEK_KIND)
            else:
                break
        if self._take(PYTHON_TAG):
            return bool(names.code)
        if self._take(*NAMED) or (tagged and not self._next("[", "{", "<")):
            return self._identifier(names)
        if not (bare or tagged):
            return False
        if self._take("["):
            self._space()
            if not self._next("{"):
                return self._identifier(names) and bool(self._take("("))
        return bool(self._take("{")) and self._object(names)

    def _object(self, names: Names) -> bool:
        """A name that is known, and then arguments."""
        named = False
        while True:
            self._space()
            if not self._take('"'):
                return False
            key = self._word(_KEYS)
            self._space()
            if key is None or not self._take(":"):
                return False
            self._space()
            if key in ARGUMENT_KEYS:
                return named
            if key == "tool_calls":
                if not self._take("["):
                    return False
                self._space()
                if not self._take("{"):
                    return False
                continue
            if key == "function" and self._take("{"):
                continue
            if not self._take('"'):
                return False
            if key in NAME_KEYS:
                named = self._word(names.all) is not None
                if not named:
                    return False
            elif key == "type":
                if self._word(("function",)) is None:
                    return False
            else:
                self._word(None)
            self._space()
            if not self._take(","):
                return False

    # -- steps: each says whether it could be taken, or that the text is too short to tell

    def _space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _next(self, *literals: str) -> str | None:
        """Which of them comes next."""
        rest = self._text[self._at :]
        for literal in literals:
            if rest.startswith(literal):
                return literal
        if any(literal.startswith(rest) for literal in literals):
            raise _TooShort
        return None

    def _take(self, *literals: str) -> str | None:
        found = self._next(*literals)
        self._at += len(found or "")
        return found

    def _line(self) -> str | None:
        """The language of a fence, if a call may be in it."""
        end = self._text.find("\n", self._at)
        language = self._text[self._at : end if end >= 0 else None].strip().lower()
        if end < 0 and any(one.startswith(language) for one in LANGUAGES):
            raise _TooShort
        self._at = end + 1
        return language if end >= 0 and language in LANGUAGES else None

    def _word(self, known: Collection[str] | None) -> str | None:
        """The rest of a string, if it is one of those."""
        end = self._text.find('"', self._at)
        word = self._text[self._at : end if end >= 0 else None]
        if end < 0 and (known is None or any(one.startswith(word) for one in known)):
            raise _TooShort
        self._at = end + 1
        return word if end >= 0 and (known is None or word in known) else None

    def _identifier(self, names: Names) -> bool:
        found = _IDENTIFIER.match(self._text, self._at)
        name = found[0] if found else ""
        self._at += len(name)
        if self._at == len(self._text) and any(one.startswith(name) for one in names.all):
            raise _TooShort
        return name in names.all
