// Python with its words in colour: a list of pieces, each text with the class it belongs to.

const KEYWORDS = `False None True and as assert async await break case class continue def del elif else except finally
  for from global if import in is lambda match nonlocal not or pass raise return try while with yield`;
const BUILTINS = `abs all any bool bytes dict dir enumerate filter float format frozenset getattr hasattr int isinstance
  iter len list map max min next object open ord pow print range repr reversed round set setattr sorted str sum super
  tuple type zip`;
const CLASSES = new Map([
  ...KEYWORDS.split(/\s+/).map((word) => [word, "keyword"]),
  ...BUILTINS.split(/\s+/).map((word) => [word, "builtin"]),
]);
const LONGEST = 200_000;

const TOKEN = new RegExp(
  [
    /(?<comment>#[^\n]*)/,
    /(?<string>\b[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?))/,
    /(?<bare>"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?)/,
    /(?<number>\b(?:0[xXoObB][\da-fA-F_]+|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?j?)\b)/,
    /(?<decorator>(?<=^|\n)[ \t]*@[\w.]+)/,
    /(?<word>[\p{L}_][\p{L}\d_]*)/,
  ]
    .map((one) => one.source)
    .join("|"),
  "gu",
);

/** Pieces `[text, class or ""]` that together are the code. */
export function python(code) {
  if (code.length > LONGEST) return [[code, ""]];
  const pieces = [];
  let at = 0;
  let before = "";
  for (const found of code.matchAll(TOKEN)) {
    const { comment, string, bare, number, decorator, word } = found.groups;
    let kind = "";
    if (comment) kind = "comment";
    else if (string || bare) kind = "string";
    else if (number) kind = "number";
    else if (decorator) kind = "decorator";
    else if (before === "def" || before === "class") kind = "name";
    else if (code[found.index - 1] !== ".") kind = CLASSES.get(word) ?? "";
    before = word ?? "";
    if (!kind) continue;
    if (found.index > at) pieces.push([code.slice(at, found.index), ""]);
    pieces.push([found[0], kind]);
    at = found.index + found[0].length;
  }
  if (at < code.length) pieces.push([code.slice(at), ""]);
  return pieces;
}

/** The same as nodes. */
export function coloured(code, language = "python") {
  if (!/^(python|py|python3|ipython)?$/i.test(language)) return [document.createTextNode(code)];
  return python(code).map(([text, kind]) => {
    if (!kind) return document.createTextNode(text);
    const span = document.createElement("span");
    span.className = `py-${kind}`;
    span.textContent = text;
    return span;
  });
}
