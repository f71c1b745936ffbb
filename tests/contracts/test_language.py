"""Plain English: phrases that texts of this project do not use, each with its replacement.

The test reads string literals, docstrings and comments of Python, the prose of Markdown (code and
generated tables left out) and the pages of the dashboard. Words that also have a good sense are
not on the list.
"""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BE = r"(?:is|are|was|were|be|been|being)"
NO = (
    r"(?:number|name|setting|file|dataset|model|job|text|date|column|header|key|list|object|error|"
    r"fault|member|format|scope|part|place|address|folder|array)"
)
PHRASES = {
    # Archaic or poetic words
    r"anew": "again, from scratch",
    r"afresh": "again, from scratch",
    r"mend(?:ed|s|ing)?": "fix",
    r"shall": "must, will",
    r"whoever|whosoever|whomever": "anyone who, the caller",
    r"(?:no|every|some)body(?:'s)?": "no one, everyone, someone; better: the caller, the user",
    r"whence|whereof|whereupon|wherein": "from which, of which, in which",
    r"thereof|therein|thereupon|thereby": "of it, in it, this way",
    r"hereby|herein|hereof": "by this, in this",
    r"hitherto|heretofore|henceforth": "so far, from here on",
    r"unto|upon": "to, on",
    r"whilst|amongst|amidst?": "while, among",
    r"albeit|notwithstanding": "although, in spite of",
    r"in (?:its|their|the) midst": "in progress",
    r"nowhere else": "only here, in no other place",
    r"lest": "so that … not",
    r"ere": "before",
    r"oneself": "yourself",
    r"straightway|forthwith": "immediately",
    r"aught|naught": "anything, nothing",
    r"amiss": "wrong",
    r"foretells?|foretold": "predicts",
    r"at ease": "without problems",
    r"as it were": "leave it out",
    r"of its own accord": "by itself, automatically",
    r"by and by": "gradually",
    r"time and again": "repeatedly",
    r"in vain": "without effect",
    r"such a one": "such a …",
    r"ever so": "very",
    r"no sooner": "as soon as",
    r"set forth": "described",
    r"by rights": "correctly",
    # Dialect of the first version
    rf"{BE} told(?! (?:apart|from))": "is reported, receives",
    r"tells? of": "reports",
    r"stands? in(?! for)": "is in, is stored in",
    r"stands? (?:there|here|beside|behind|before|alone|once|twice|more than once|above|below|under|"
    r"for itself)": "is",
    r"stood (?:in|there|here|beside|behind)": "was",
    r"taken up": "resumed",
    r"takes? up (?:a|the|its|their) (?:job|work|checkpoint)": "resumes",
    r"written down": "stored, checkpointed",
    r"go(?:es)? on": "continues",
    r"went on": "continued",
    r"going on": "continuing, running",
    rf"(?<!there ){BE} no {NO}": "is not a …",
    r"held back": "in the validation set; delayed",
    r"hold(?:s|ing)? back": "keep for validation; delay",
    r"held against": "compared with, evaluated on",
    r"hold(?:s|ing)? against": "compares with, evaluates on",
    r"(?:is|are) there already": "exists already",
    rf"{BE} it well": "health",
    r"how (?:it|they) (?:is|are) doing": "status",
    r"hears? (?:a |of )?\d{3}": "receives",
    r"counts? for nothing": "is ignored",
    r"who waits": "a caller that waits",
    r"who asks": "the caller",
    r"who wants": "to …",
    r"wishes|wish of (?:the|a|its)": "requests, what … asked for",
    r"as (?:many|much) as (?:it|they) likes?": "without limit",
    r"(?:is|are|was|were) away(?! from)": "is unavailable",
    r"finds? no room": "has no space",
    r"lets? go of": "releases",
    r"let in": "admitted, authenticated",
    rf"{BE} said": "is stated, is reported",
    r"says so": "reports it",
    r"once more": "again",
    r"(?<!is )(?<!are )(?<!was )(?<!were )(?<!be )all the same(?=[.,;:)]|$)": "anyway",
    r"from now on": "after this",
    r"by hand of": "by",
    r"comes? to nothing": "has no effect",
    r"comes? of": "results from",
    r"becomes? of": "happens to",
    r"put right": "corrected",
    r"does not go so far": "lacks the required scope",
    r"may as well": "can",
    r"and the like": "and similar ones",
    r"so many": "this many, n",
    r"so much": "this much",
    r"look(?:s|ed)? after": "manage",
    r"hand(?:s|ed)? over to": "pass to",
    r"give(?:s|n)? way to": "is replaced by",
    # American spelling
    r"learnt|spelt|misspelt|burnt": "learned, spelled, misspelled",
    r"labelled|labelling": "labeled, labeling",
    r"cancell(?:ed|ing)": "canceled, canceling",
    r"modell(?:ed|ing)": "modeled, modeling",
    r"travell(?:ed|ing)|signall(?:ed|ing)": "traveled, signaled",
    r"behaviours?": "behavior",
    r"colou?rise|colours?|coloured": "color",
    r"neighbours?|neighbouring": "neighbor",
    r"favours?|favourite": "favor",
    r"honours?|honoured": "honor, respect",
    r"grey": "gray",
    r"towards": "toward",
    r"catalogues?": "catalog",
    r"licences?|defence": "license, defense",
    r"analys(?:e|ed|ing)": "analyze",
    r"(?:normal|standard|regular|organ|recogn|optim|initial|serial|minim|maxim)is(?:e|ed|es|ing|"
    r"ation)": "-ize",
    r"artefacts?": "artifact",
}
"""A phrase, as a regular expression in lower case, and its replacement."""
PATTERN = re.compile(rf"\b(?:{'|'.join(f'(?:{phrase})' for phrase in PHRASES)})\b")
EXEMPT = {"tests/contracts/test_language.py"}
CODE = re.compile(
    r"<!-- table: .*?<!-- end -->|```.*?```|~~~.*?~~~|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.DOTALL
)
TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>|\{[{%#].*?[}%#]\}", re.DOTALL)
STRING = re.compile(r"[rbuf]*(\"\"\"|\'\'\'|[\"\'])(.*)\1", re.DOTALL | re.IGNORECASE)
ESCAPE = re.compile(r"\\[nrt]")
Passage = list[tuple[int, str]]
"""Text that is read as one: pieces with the line on which each begins."""


def files(*suffixes: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.splitlines() if name.endswith(suffixes)]
    return [ROOT / name for name in names if name not in EXEMPT and (ROOT / name).exists()]


def of_python(text: str) -> Iterator[Passage]:
    """String literals and comments; neighbors are one passage."""
    passage: Passage = []
    kind = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name in ("NL", "FSTRING_START", "FSTRING_END"):
            continue
        if token.type != kind:
            yield passage
            passage, kind = [], token.type
        if name == "COMMENT":
            passage.append((token.start[0], token.string.lstrip("# ")))
        elif name == "STRING":
            literal = STRING.fullmatch(token.string)
            assert literal is not None
            passage.append((token.start[0], ESCAPE.sub("  ", literal[2])))
        elif name == "FSTRING_MIDDLE":
            passage.append((token.start[0], token.string))
    yield passage


def blank(match: re.Match[str]) -> str:
    """White space with as many line ends; it separates passages, as a word of code would."""
    return " … " + "\n" * match[0].count("\n")


def of_markdown(text: str) -> Iterator[Passage]:
    yield [(1, CODE.sub(blank, text))]


def of_page(text: str) -> Iterator[Passage]:
    yield [(1, TAG.sub(blank, text))]


READERS = {".py": of_python, ".md": of_markdown, ".html": of_page}


def found(passage: Passage) -> Iterator[tuple[int, str]]:
    """Line and phrase of each offense, whatever the white space between its words."""
    words, lines = [], []
    for first, text in passage:
        for number, line in enumerate(text.split("\n"), first):
            for word in line.split():
                words.append(word)
                lines.append(number)
    flat = " ".join(words)
    for match in PATTERN.finditer(flat.lower()):
        yield lines[flat.count(" ", 0, match.start())], match[0]


def instead(phrase: str) -> str:
    hints = (hint for p, hint in PHRASES.items() if re.match(p, phrase))
    return next(hints, "")


@pytest.mark.parametrize("suffix", READERS)
def test_no_banned_phrase(suffix: str) -> None:
    """The message gives file, line, phrase and replacement."""
    assert len(files(suffix)) > 10
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}: {instead(phrase)}"
        for path in files(suffix)
        for passage in READERS[suffix](path.read_text())
        for line, phrase in found(passage)
    ]
    assert not wrong, f"{len(wrong)} phrases\n" + "\n".join(wrong[:200])


BAD = """\
'''It goes on: the row stands in
a table that nobody reads.'''
# mended
x = f"{1} anew: this " \\
    "is no " "number,\\nso many"
"""


@pytest.mark.parametrize(
    ("suffix", "text", "offenses"),
    [
        (
            ".py",
            BAD,
            [
                (1, "goes on"),
                (1, "stands in"),
                (2, "nobody"),
                (3, "mended"),
                (4, "anew"),
                (5, "is no number"),
                (5, "so many"),
            ],
        ),
        (".py", 'shall = "there is no model"  # told apart\n', []),
        (".md", "a `shall`\n```\nanew\n```\n<!-- table: x -->\nanew\n<!-- end -->\n", []),
        (".md", "# Who\nis\ntold of it\n", [(2, "is told")]),
        (".md", "All are the same. They are all the same.\n", []),
        (".html", "<p class='anew'>{{ anew }} It\n<b>goes on</b></p>", [(2, "goes on")]),
    ],
)
def test_texts_are_read(suffix: str, text: str, offenses: list[tuple[int, str]]) -> None:
    """Phrases are found across line ends and adjacent literals; code is left out."""
    assert [each for passage in READERS[suffix](text) for each in found(passage)] == offenses


def test_list_is_long() -> None:
    """Every phrase has a replacement."""
    assert len(PHRASES) >= 60
    assert all(PHRASES.values())
