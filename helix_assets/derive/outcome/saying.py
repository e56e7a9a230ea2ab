"""What an agent's last message says: that the work is done, that it is not, a question, a next step.

Belongs here: the whole message, sentence by sentence, by the shape of its English. A result is a statement about the
past or about a state that was reached; there is no list of verbs that mean done. Not here: what a person says
(`closing`), what any of it means for a session (`ending`).
"""

from __future__ import annotations

import re
from functools import lru_cache


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


# -- sentences -------------------------------------------------------------------------------------------------------

_MOST = 400
"""What is read of one sentence."""
_CODE = re.compile(r"^ *(```|~~~).*?(?:^ *\1 *$|\Z)", re.S | re.M)
_INLINE = re.compile(r"`[^`\n]{1,200}`")
_URL = re.compile(r"https?://\S+")
_LEAD = re.compile(r"\A(?:[^\w\n(\"'\[]|\d{1,3}[.)] |\[ ?\] ?|[a-z]\) )+")
_CHECKED = re.compile(r"\A\W{0,6}(?:[✅✔☑]|✓|\[x\])", re.I)
_BETWEEN = re.compile(r"(?<=[.!?…:;])[\")*_]*\s+|\s+[-–—•]\s+|\s*\|\s*|\n")  # noqa: RUF001 - dashes of typesetters


class _Sentence(str):
    """A sentence without its list mark, and whether a check mark stands before it."""

    __slots__ = ("is_checked",)
    is_checked: bool


@lru_cache(4)
def _sentences(text: str) -> tuple[_Sentence, ...]:
    plain = _URL.sub("X", _INLINE.sub("X", _CODE.sub("\n", text))).replace("**", "").replace("__", "")
    found = []
    for part in _BETWEEN.split(plain):
        words = _LEAD.sub("", part.strip()).strip(" *_")[:_MOST]
        if words:
            sentence = _Sentence(words)
            sentence.is_checked = _CHECKED.match(part.strip()) is not None
            found.append(sentence)
    return tuple(found)


# -- results ---------------------------------------------------------------------------------------------------------

# English past forms by their shape: -ed, and the irregular ones, whose number is fixed.
_IRREGULAR = frozenset({
    "bent", "bound", "brought", "built", "cast", "caught", "chose", "chosen", "cut", "dealt", "done", "drawn", "drew",
    "dug", "fed", "flown", "found", "freed", "frozen", "gave", "given", "gone", "grown", "held", "hid", "hidden",
    "hooked", "hung", "kept", "laid", "led", "left", "let", "lit", "made", "met", "overridden", "overrode", "put",
    "ran", "rebuilt", "redid", "redone", "remade", "reran", "rerun", "resent", "reset", "rewritten", "rewrote",
    "sent", "set", "sewn", "shrank", "shrunk", "shut", "sped", "spent", "split", "spun", "strung", "swept", "swung",
    "taken", "taught", "threw", "thrown", "took", "torn", "undid", "undone", "went", "withdrawn", "withdrew", "won",
    "worn", "wound", "written", "wrote",
})  # fmt: skip
# Past forms that report no result: what was thought, tried or met with, and participles that only describe.
_NO_RESULT = frozenset({
    "affected", "aforementioned", "agreed", "anticipated", "asked", "assumed", "attempted", "based", "believed",
    "blocked", "broken", "called", "caused", "compared", "complicated", "concerned", "confused", "considered",
    "continued", "decided", "declined", "defined", "denied", "deprecated", "described", "desired", "detailed",
    "encountered", "errored", "estimated", "expected", "experienced", "failed", "given", "guessed", "happened",
    "hesitated", "hoped", "hundred", "indeed", "intended", "interested", "interrupted", "involved", "known", "left",
    "let", "limited", "listed", "located", "looked", "misread", "missed", "mixed", "named", "needed", "noted",
    "noticed", "observed", "occurred", "outdated", "paused", "planned", "preferred", "presumed", "proposed",
    "realized", "received", "recommended", "refused", "rejected", "related", "relied", "remained", "repeated",
    "requested", "required", "scared", "seemed", "shared", "skipped", "started", "stopped", "struggled", "suggested",
    "supposed", "suspected", "timed", "tried", "undefined", "unexpected", "unfinished", "unrelated", "unresolved",
    "untested", "unused", "used", "waited", "wanted", "warned", "wished", "wondered",
})  # fmt: skip
_MARK = "¶"
"""Stands behind every past form that may report a result, before the patterns of `_PAST_RESULT` are tried."""
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*", re.I)
_PAST = rf"[\w-]+{_MARK}(?! not\b)"


def _marked(sentence: str) -> str:
    return _WORD.sub(
        lambda found: found[0] + _MARK if _is_past(found[0].lower().rpartition("-")[2]) else found[0], sentence
    )


def _is_past(word: str) -> bool:
    is_regular = word.endswith("ed") and len(word) > 3 and not word.endswith("eed")
    return (is_regular or word in _IRREGULAR) and word not in _NO_RESULT


_ADVERBS = r"(?: (?:all|also|already|both|just|now|only|then|[a-z]+ly)){0,3}"
_BEGINNING = r"(?:(?:all|also|and|both|everything|finally|just|now|ok|okay|so|then|[a-z]+ly)[,:]? ){0,2}"
_STATE = (
    r"(?:clean|complete|done|finished|gone|good to go|green|in place|live|passing|ready|resolved|up and running"
    r"|up to date|working)\b"
    r"(?! (?:a|against|an|as|at|because|by|for|from|if|in|into|of|on|once|only|out|the|to|until|via|when|while|with)\b"
    r"(?! (?:review|merge|use|production|prod|main|master)\b))"
)
_FINITE = (
    r"(?:'s|'re|are|as|be|become|becomes|been|being|can|could|does|gets?|had|has|have|how|i|if|is|it|may|might|must|no"
    r"|not|of|once|should|that|they|to|until|was|we|were|what|when|where|which|who|why|will|would|you)"
)
_BE = r"(?:is|are|was|were|'s|'re)"
_CHECKS = (
    r"(?:assertions?|build|builds|checks?|ci|compilation|e2e|everything|lint(?:er|ing)?|mypy|pipeline|specs?|suites?"
    r"|tests?|tsc|typecheck(?:s|ing)?|type[- ]checks?|validation)"
)
_PAST_RESULT = _any(
    # the agent's own past
    rf"\b(?:i|we)(?:'ve| have)?{_ADVERBS} {_PAST}",
    # a sentence or a point of a list that begins with its participle: "Spawned three workers"
    rf"\A{_BEGINNING}{_PAST}(?!')(?! (?:are|be|by|has|in order|is|on|that|to be|upon|was|were)\b)",
    # a noun and its participle, as headlines have it: "Branch pushed", "7 remaining stories created"
    rf"\A(?!.{{0,90}}\b{_FINITE}\b)(?:[\w./&'{_MARK}-]+,? ){{1,7}}{_PAST}"
    r"(?: (?:again|already|as well|away|back|correctly|down|now|off|out|over|too|up|[a-z]+ly)){0,2}"
    r"(?:\W*\Z| (?:as|at|from|in|into|on|onto|to|under|via|with) )",
    # counts: "51 passed", "12 files changed"
    rf"(?<![\w.])[1-9]\d*(?: (?!of\b|to\b|is\b|are\b)[\w/{_MARK}-]+){{0,3}} {_PAST}(?! (?:by|to)\b)",
    # the perfect, and the passive of states that were reached
    rf"\b(?:has|have|had){_ADVERBS} (?:been{_ADVERBS} )?(?:run\b|{_PAST})",
    rf"\b{_BE} (?:all|also now|now(?: all| also| both| fully)?|[a-z]+fully|already) {_PAST}(?! by\b)",
    rf"\b(?:is|are|was|were) {_PAST} and {_PAST}(?! by\b)",
    rf"\A(?!.{{0,120}}\b(?:after|before|each|every|if|only|that|unless|until|when\w*|which)\b)"
    rf"(?:\S+ ){{0,6}}\S+(?:'s| is| are) {_PAST}(?: (?:again|as well|down|in|now|off|on|out|together|too|up))*\W*\Z",
)
_RESULT = _any(
    r"(?<![\w.])[1-9]\d*(?:/\d+)?(?: [a-z]+){0,2} (?:pass|passing|green|succeed)\b",
    r"\A(?:that|this|which) (?:also |just )?(?:did|fixed|resolved|solved|worked)\b|\bis (?:now )?live\b",
    rf"\b{_BE}{_ADVERBS} {_STATE}",
    r"\b(?:is|are|was|were) (?:added|applied|cleaned up|committed|completed|created|deleted|deployed|fixed|implemented"
    r"|installed|inverted|merged|migrated|moved|pushed|removed|renamed|resolved|updated|verified)\b"
    r"(?! (?:after|before|by|each|every|if|only|on|once|until|when\w*)\b)",
    r"\b(?:completed|ended|exited|finished|passed|ran|went)"
    r" (?:clean\w*|fine|ok|smoothly|through|well|with no|without)\b",
    r"\A(?!.{0,60}\b(?:how|no|not|until|what|when|why)\b)(?:[\w/&'-]+ ){0,6}(?:all (?:done|green|set)|complete"
    r"|done|finished|fixed|good to go|in place|ready|success"
    r"|successful|up to date|works)\s*(?:[.!:,;(]|and\b|for\b|on\b|\W*\Z)",
    rf"\b{_CHECKS}(?: \S+){{0,3}} (?:(?:is|are) )?(?:now |all |still |also )*(?:clean|green|pass|passed|passes|passing"
    r"|succeeded|succeeds?)\b",
    r"\bsuccessfully\b",
    r"\bworks(?: fine| correctly| as expected| again| now| end[- ]to[- ]end)\b",
    # what is so now: "The menu now shows initials"
    r"(?<!for )(?<!right )\bnow (?:also |correctly |always |only )?(?!has to|is\b|it's|let's|needs|requires|that's"
    r"|this|was\b)[a-z]{3,}s\b(?! (?:is|are|the time)\b)",
    r"\b(?:is|are|does|do|has|have|works|shows|uses|returns|sits) (?:\w+ ){0,6}now\W*\Z",
    r"\b(?:can|should|will) now\b|\bnow be (?:able|\w+ed)\b|\bno longer [a-z]+s\b",
    r"\bno (?:\w+ ){0,3}(?:errors|failures|issues|problems|warnings)(?: (?:found|left|remain\w*))?\b",
    # a deliverable that is handed over
    r"\A(?:here(?:'s| is| are)\b(?! (?:[\w'-]+ ){0,3}(?:alternatives|approaches|ideas|options|plan|possibilities"
    r"|proposal|questions|steps|ways)\b)|you're welcome|glad )",
    r"\b(?:branch|issue|mr|pr|pull request|release|ticket) (?:#?\w+ )?(?:is (?:open|up)|opened)\b",
)
_HEADLINE = _any(
    r"\A(?:[\w'-]+ ){0,2}(?:summary(?: of \w+(?: \w+){0,3})?|changes|changes made|deliverables|accomplishments"
    r"|what(?:'s| (?:i|was|is|got|changed))(?: \w+){0,4}|files? (?:added|changed|created|modified|touched|updated)"
    r"|key (?:changes|features|fixes)|completed(?: \w+)?|verification|done)\W*\Z",
)
_DOUBT = _any(
    r"\?\W*\Z",
    r"\A(?:nothing|if|once|unless|until|when|whenever|after|before|as soon as|assuming|should)\b",
    r"\b(?:not|cannot|never|can't|couldn't|didn't|doesn't|don't|hasn't|haven't|isn't|aren't|wasn't|weren't|won't)"
    r"(?: \w+){0,2} (?:been|yet|fully|actually|be|pass|passed|\w+ed)\b",
    r"\b(?:would|could|might|may|ought|unable|neither)\b",
    r"\b(?:need|needs|want|wants|have|has|going|remains?|yet|still) to be\b|\bstill (?:broken|fail\w*|needs?|red)\b",
    r"\b(?:only|just) (?:once|when|if|after)\b|\b(?:once|when|if|after|until|whenever) (?:you|you're|we|i)\b",
)
_FUTURE = _any(r"\b(?:i'll|i will|we'll|i'm going to|let me|next step|going to)\b")

# -- what is not done ------------------------------------------------------------------------------------------------

_WORK = (
    r"(?:access|add|apply|build|change|commit|complete|connect|continue|create|deliver|determine|do|edit|figure"
    r"|find|finish|fix|get|identify|implement|install|locate|make|open|proceed|push|reach|recover|repair|reproduce"
    r"|resolve|run|save|solve|start|update|write)\b"
)
_CHECKING = _any(
    r"\b(?:run|test|tests|verify|verified|check|confirm|reproduce|browser|manually|e2e|end[- ]to[- ]end|locally"
    r"|integration|live|visual\w*|access to)\b"
)
_GIVES_UP = _any(
    r"\bi(?:'m| am| was| have been)? (?:currently |still )?(?:not able|not allowed|not permitted|unable) to\b",
    r"\bi (?:wasn't|haven't been) (?:able|allowed) to\b",
    r"\bi(?:'m| am| was) (?:blocked|stuck)\b",
    r"\bi don't have (?:access|permission|the (?:tools|rights|permissions?))\b",
    r"\bi (?:can't|cannot|could not|couldn't|did not|didn't|haven't) (?:actually |fully |get |make |manage to |yet )*"
    + _WORK,
    r"\b(?:gave up|give up|giving up|no luck|to no avail|without success)\b",
)
_STILL_BROKEN = _any(
    r"\b(?:still|keeps?|continues? to) (?:crash|fail|hang|throw|time out)\w*",
    r"\bstill (?:broken|doesn't|does not|errors? out|not (?:pass|work)\w*|red\b)",
    r"(?<!no )\b(?:bugs?|errors?|failures?|issues|problems|tests?|warnings) (?:are (?:still )?(?:left|open)"
    r"|(?:still )?remain(?:s|ing)?)(?=\W*\Z| (?:after|and|broken|in|on|open|red|to|unfixed|unresolved|with)\b)",
    r"\bnothing (?:has been|is|was) (?:applied|changed|done|written)",
)
_STEP = r"(?:build|command|commit|deploy\w*|install\w*|merge|migration|push|release|request|run|upload)"
# Failures that it may only explain: of somebody else's run, or of one that was mended since.
_FAILURE = _any(
    rf"\b{_STEP} (?:has |is |was |keeps )?(?:blocked|denied|failed|failing|refused|rejected)\b",
    r"\b(?:are|is|was|were) (?:left )?unchanged(?=\W*\Z)",
    r"\b(?:was|were) not (?:applied|changed|created|fixed|resolved|saved|written)\b",
    r"\bunfortunately\b[^.]{0,120}\b(?:can't|couldn't|fail\w*|not|unable)\b",
    r"\b(?:can't|cannot) be (?:built|fixed|installed|reached|run)\b",
)
_NOT_OURS = _any(
    r"\b(?:unrelated|pre-?existing|flaky)\b",
    r"\balready (?:broken|failed|failing|red)\b",
    r"\b(?:expected|known|same) (?:\w+ )?failures?\b|\bfail(?:s|ed)? (?:as expected|by design)\b",
    r"\bnot (?:caused|introduced) by\b|\bnot (?:from|related to) (?:my|our|the|these|this)\b",
    r"\b(?:broken|failed|failing|fails?)(?: \w+){0,3} on (?:main|master|trunk|the base)\b",
    r"\b(?:before|without|independent(?:ly)? of|prior to) (?:my|our|the|these|this|any of (?:my|our|these)) changes?\b",
)

# -- answers, questions, next steps ----------------------------------------------------------------------------------

_ANSWERS = _any(
    r"\A\W*(?:correct|exactly|good question|it depends|no|nope|not (?:quite|really|yet)|right"
    r"|short (?:answer|version)|yes|you're right)(?:[.,:;!—-]| [^.]{0,60}[.,:;!])",
)
_OFFER = _any(
    r"\b(?:can i|could you|do you want|may i|shall i|should i|want me to|would you like)\b",
    r"\bwhich (?:approach|of|one|option|way|would)\b",
    r"\b(?:how|what) (?:do you|is the|should|would)\b",
    r"\b(?:are you|is that)\b",
    r"\bplease (?:clarify|confirm|let|paste|provide|share|specify|tell)\b",
)
_PLEASE_TELL = _any(
    r"\bplease (?:clarify|confirm|paste|provide|share|specify|tell me)\b[^.!?]{0,160}[.!?]?\s*\Z",
    r"\b(?:need|waiting for) your (?:answer|approval|confirmation|decision|input)\b[^.!?]{0,80}[.!?]?\s*\Z",
)
_FIRST = r"(?:\A|[.!?:\n] )(?:(?:first|good|great|next|now|ok|okay|perfect|so|then),? )?"
_ANNOUNCED = _any(
    _FIRST + r"(?:let me (?!know)|(?:i'll|i will) (?:now )?(?!be |hold|keep|leave|let |not |report|stay|stop|wait)"
    r"|i'm going to |i'm (?:now )?[a-z]+ing |moving on|(?:checking|running|verifying) )[^.!?\n]*[.:…]?\s*\Z",
    _FIRST + r"(?:[a-z]+ing|now) (?:for|it|that|the|them|this|to) [^.!?\n]*[:…]\s*\Z",
)
_HEADING = re.compile(r"(?:\A|\s)(?:#{1,4} \S|\*\*[^*\n]{2,80}\*\*|```)")


def says_done(text: str) -> bool:
    """The agent says that it did what was asked, or presents its result."""
    return any(_is_result(sentence) for sentence in _sentences(text))


def _is_result(sentence: _Sentence) -> bool:
    if sentence.is_checked:
        return True
    if _HEADLINE.search(sentence):
        return True
    if not (_RESULT.search(sentence) or _PAST_RESULT.search(_marked(sentence))):
        return False
    return not (_DOUBT.search(sentence) or _FUTURE.search(sentence))


def gives_up(text: str) -> bool:
    """The agent says that it could not do it."""
    return any(_GIVES_UP.search(sentence) for sentence in _sentences(text))


def says_not_done(text: str, *, has_failures: bool = True) -> bool:
    """The agent says that something is still broken or was not done, or names a failure where its calls have one."""
    patterns = (_GIVES_UP, _STILL_BROKEN, _FAILURE) if has_failures else (_GIVES_UP, _STILL_BROKEN)
    return any(pattern.search(sentence) for sentence in _sentences(text) for pattern in patterns)


def ends_on_failure(text: str) -> bool:
    """The first or the last words of a message that also reports results say that the work as a whole failed.

    What could not be checked, or does not matter, is only a remark.
    """
    said = [each for each in _sentences(text) if not each.endswith("?")]
    ends = {*said[:1], *said[-2:]}
    return any(
        (_STILL_BROKEN.search(each) or (_GIVES_UP.search(each) and not _CHECKING.search(each)))
        and not _NOT_OURS.search(each)
        for each in ends
    )


def says_not_ours(text: str) -> bool:
    """The agent says that the failures have nothing to do with its work."""
    return _NOT_OURS.search(text) is not None


def answers(text: str) -> bool:
    """The agent's first words answer a question."""
    return _ANSWERS.search(text) is not None


def asks_back(text: str) -> bool:
    """The agent's last sentence asks the person something."""
    asks = text.rstrip(" )*_\"'\n").endswith("?") and _OFFER.search(text[-240:]) is not None
    return asks or _PLEASE_TELL.search(text) is not None


def announces(text: str) -> bool:
    """The agent's last sentence says what it is about to do."""
    return _ANNOUNCED.search(text.rstrip()[-_MOST:]) is not None


def is_report(text: str) -> bool:
    """The text has headings or contains code."""
    return _HEADING.search(text) is not None
