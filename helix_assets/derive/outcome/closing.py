"""What a person's or an agent's last words say: done, failed, a question, a complaint, thanks.

Belongs here: patterns over short English texts, each for one meaning. Not here: what they mean for a session
(`ending`). A text in another language matches nothing, and `is_foreign` detects it.
"""

from __future__ import annotations

import re


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


# -- what the agent says ---------------------------------------------------------------------------------------------

_MADE = (
    r"(?:added|addressed|adjusted|amended|applied|built|changed|centered|cleaned|committed|completed"
    r"|configured|converted"
    r"|corrected|created|cut|deleted|deployed|disabled|documented|dropped|enabled|extended|extracted|finished|fixed"
    r"|formatted|generated|implemented|improved|increased|inlined|inserted|installed|integrated|introduced|made|merged"
    r"|migrated|modified|moved|opened|patched|ported|published|pushed|put|rebased|reduced|refactored|released|removed"
    r"|renamed|reordered|replaced|resolved|restored|restructured|reworked|rewritten|rewrote|saved|set up|simplified"
    r"|sorted|split|staged|swapped|switched|translated|tested|turned|undone|updated|upgraded|verified"
    r"|wired|wrapped|written"
    r"|wrote)\b"
)
_SENTENCE = r"(?:\A|(?<=[.!?:\n]) |(?<=[-*•] ))[^\w\s]{0,4} ?"
_ADVERBS = r"(?: also| now| just| successfully| already){0,2} "
_STATE = (
    r"(?:added|committed|created|deleted|deployed|fixed|gone|implemented|in place|installed|inverted|live|merged"
    r"|migrated|moved|pushed|removed|renamed|resolved|up to date|updated)\b"
)
_DOES = (
    r"(?:accepts|builds|contains|follows|handles|has|includes|keeps|matches|passes|points|prints|reads"
    r"|returns|runs|shows"
    r"|sits|skips|stays|supports|uses|works|writes)\b"
)
_DONE = _any(
    _SENTENCE + r"(?:all |and |it's |that's |we're )?(?:done|finished|fixed|completed?|ready)\s*(?:[.!:,;—-]|\Z)",
    r"\b(?:i|we)(?:'ve| have)?" + _ADVERBS + _MADE,
    _SENTENCE + r"(?:successfully )?" + _MADE,
    r"\b(?:has|have) (?:now |all |both )?been (?:successfully |fully )?" + f"(?:{_MADE}|{_STATE})",
    r"\b(?:is|are|was|were) (?:now |all )?(?:successfully |fully )?" + _STATE,
    r"\b(?:is|are) (?:now )?(?:clean|complete|done|finished|green)\b(?! (?:a|and|for|of|the|to)\b)",
    r"\b(?:all|build|checks|everything|lint|suite|tests) (?:now |all )?(?:pass(?:es)?|succeeds?)\b",
    r"\b(?:is|are|does|do|has|have|works|shows|uses|returns|sits) (?:\w+ ){0,6}now[.,;!]",
    r"\bnow " + _DOES,
    r"\byou (?:can|should|will) now\b",
    r"\b(?:summary of (?:all |my |the )?changes|changes made|what (?:i )?changed|complete)\b\W*\n?",
    r"\b(?:branch|issue|pr|pull request) (?:created|is up|merged|opened)\b",
    r"\bsuccessful(?:ly)?\b",
    r"\bno (?:errors|issues|problems|warnings) (?:found|left|remain)",
    _SENTENCE + r"(?:here(?:'s| is| are)|you're welcome|glad )",
)
_TRY = (
    r"(?:access|add|apply|build|change|commit|complete|connect|continue|create|determine|do it|edit"
    r"|find out|finish|fix|get"
    r"|implement|install|make|open|proceed|push|reach|repair|reproduce|resolve|run|save|solve|start|update|write)\b"
)
_STEP = r"(?:build|command|commit|deploy\w*|install\w*|merge|migration|push|release|request|run|upload)"
_GIVES_UP = _any(
    r"\bi(?:'m| am| was| have been)? (?:not able|not allowed|not permitted|unable) to\b",
    r"\bi (?:wasn't|haven't been) (?:able|allowed) to\b",
    r"\bi(?:'m| am| was) (?:blocked|stuck)\b",
    r"\bi don't have (?:access|permission)\b",
    r"\bi (?:can't|cannot|could not|couldn't|did not|didn't) (?:actually |fully |get |make |manage to |yet )*" + _TRY,
    r"\b(?:gave up|give up|giving up|no luck|to no avail|without success)\b",
)
_NOT_DONE = _any(
    r"\b(?:still|keeps?|continues? to) (?:crash|fail|throw)\w*",
    r"\bstill (?:broken|doesn't|does not|errors?\b|not (?:pass|work)\w*|red\b)",
    r"\b" + _STEP + r" (?:has |is |was )?(?:blocked|denied|failed|failing|refused|rejected)\b",
    r"\b(?:\d+|errors?|failures?|issues|problems|tests?|warnings) (?:are (?:still )?left"
    r"|(?:still )?remain(?:s|ing)?)\b",
    r"\bnothing (?:has been|is|was) (?:applied|changed|done|written)",
    r"\b(?:are|is|was|were) (?:left )?unchanged",
    r"\b(?:is|was|were) not (?:applied|changed|created|fixed|resolved|saved|written)\b",
    r"\bunfortunately\b[^.]{0,120}\b(?:can't|couldn't|fail|not|unable)",
    r"\b(?:can't|cannot) be (?:built|fixed|installed|reached|run)\b",
)
_NOT_OURS = _any(
    r"\b(?:unrelated|pre-?existing|flaky)\b",
    r"\balready (?:broken|failed|failing)\b",
    r"\bnot (?:caused by|from|related to) (?:my|our|the|this)\b",
    r"\b(?:broken|failed|failing|fails?)(?: \w+){0,3} on (?:main|master|trunk)\b",
)
_ANSWERS = _any(
    r"\A\W*(?:correct|exactly|good question|it depends|no|nope|not (?:quite|really|yet)|right"
    r"|short (?:answer|version)|yes"
    r"|you're right)(?:[.,:;!—-]| [^.]{0,60}[.,:;!])",
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
_ANNOUNCED = _any(
    r"(?:\A|[.!?:\n] )(?:(?:first|good|great|next|now|ok|okay|perfect|so|then),? )?(?:"
    r"let me (?!know)|i'll (?!be )|i will (?!be )|i'm going to |i'm (?:now )?(?:adding|checking"
    r"|committing|creating|fixing"
    r"|looking|moving|running|starting) |moving on|(?:checking|running|verifying) )[^.!?\n]*[.:…]?\s*\Z",
)
_HEADING = re.compile(r"(?:\A|\s)(?:#{1,4} \S|\*\*[^*]{2,80}\*\*|```)")

# -- what the person says --------------------------------------------------------------------------------------------

_QUESTION = _any(
    r"(?:\A|[.!?:;\n] ?)(?:any|are|can|could|did|do|does|has|have|how|is|should|was|were|what(?:'?s)?"
    r"|when|where|which|who"
    r"|why|will|would)\b[^.!\n]{3,300}\?",
    r"(?:, ?|\b(?:and|but|or|so) )(?:how|what(?:'?s)?|where|who|why)\b[^.!\n]{3,300}\?",
    r"\b(?:can't|couldn't|don't|doesn't|isn't|aren't|shouldn't|won't|wouldn't) (?:he|i|it|that|the|there"
    r"|they|this|we|you)\b"
    r"[^.!\n]{3,300}\?",
    r"\b(?:at|by|for|from|in|of|on|to|with) (?:what|which|whom?)\b[^.!\n]{3,300}\?",
    r"(?:, (?:correct|no|right|yes)|\banymore|\bor not)\?",
)
_PLAIN_QUESTION = _any(
    r"\A\W*(?:(?:and|but|hey|hi|now|oh|ok|okay|please|so|well)\b[ ,.]+){0,3}(?:"
    r"what(?:'s| is| are| does| do| did| was| would| should| happens| changed)|why (?:is|are|do|does|did|was|would|not)"
    r"|how (?:are|can|come|did|do|does|is|long|many|much|should|would)|where (?:are|can|did|do|does|is)"
    r"|who (?:are|does|is)"
    r"|when (?:did|does|is|was)|is (?:it|that|the|there|this)|are (?:the|there|these|those|we)|does (?:it"
    r"|that|the|this)"
    r"|do (?:i|we|you)|did (?:it|we|you)|should (?:i|it|we)|which \w+ )",
)
_WANTS_WORDS = _any(
    r"(?:\A\W*|[.!?:,\n] ?|\b(?:and|just|me|please|then|to|us|you) )(?:analy[sz]e|assess|audit|brainstorm"
    r"|clarify|compare|describe"
    r"|estimate|evaluate|explain|explore|find out|investigate|outline|propose|recommend|research|review"
    r"|suggest|summari[sz]e"
    r"|(?:show|tell|give|teach) (?:me|us)|walk me through|think about|look (?:into|at)|search (?:for|online|the web)"
    r"|check (?:how|if|what|whether|why)|(?:create|make|write)(?: me)? (?:a|the) (?:plan|proposal|report"
    r"|summary)|thoughts)\b",
)
_COMPLAINS = _any(
    r"(?:\A|\b(?:and|but|it'?s|it is|no|nope|that'?s|they'?re|this is))[\s,.!]*still\b(?! need)",
    r"(?<!'ll )(?<!will )(?<!would )(?<!should )\bstill "
    r"(?:an? error|broken|can'?t|cannot|crash\w*|does ?n[o']t|errors?|fail\w*|get\w*|happen\w*"
    r"|is ?n[o']t|not|red|see"
    r"|shows?|the same|throws?|wrong)\b",
    r"\b(?:are|did|do|does|is|was)(?: not|n[o']?t|n't| ?nt) (?:even |really )?(?:build|change anything"
    r"|compile|fix|help|load"
    r"|pass|run|solve|start|work)\w*(?!.*\?\s*\Z)",
    r"\bnot working\b|\bno (?:difference|effect)\b|\bsame (?:bug|error|issue|problem|result|thing)\b",
    r"(?:\A\W*|\b(?:it is|it'?s|result is|that is|that'?s|this is|you'?re) )(?:all |completely |just "
    r"|totally )?(?:broken|"
    r"incorrect|not correct|not right|useless|worse|wrong)\b",
    r"\bwrong (?:answer|file|output|place|result)\b|\bnot what i (?:asked|mean|said|want)",
    r"\b(?:made|makes|making) (?:everything|it|that|things|this) (?:\w+ )?(?:slower|worse)\b"
    r"|\bthat made it (?:slower|worse)",
    r"\b(?:it|that|this|you) (?:breaks|broke|has broken|just broke)\b",
)
_PRAISE = frozenset(
    {
        "amazing",
        "awesome",
        "beautiful",
        "brilliant",
        "cheers",
        "cool",
        "excellent",
        "fine",
        "good",
        "great",
        "lgtm",
        "love",
    }
    | {"nice", "perfect", "perfectly", "thank", "thanks", "thx", "ty", "wonderful", "worked", "works", "yay"}
)
_FILLERS = frozenset(
    {
        "a",
        "again",
        "all",
        "and",
        "done",
        "exactly",
        "for",
        "help",
        "i",
        "is",
        "it",
        "job",
        "just",
        "look",
        "looks",
        "lot",
    }
    | {
        "me",
        "much",
        "now",
        "of",
        "ok",
        "okay",
        "really",
        "s",
        "so",
        "that",
        "the",
        "this",
        "to",
        "very",
        "wanted",
        "well",
    }
    | {"what", "work", "working", "yeah", "yep", "yes", "you", "your"}
)
_DROPS = _any(
    r"\b(?:abort|don'?t bother|drop it|let'?s stop|never ?mind|not worth it|nvm|stop here)\b",
    r"\bforget (?:about )?(?:it|that|this)\b|\b(?:leave|skip) (?:it|that|this)\b",
    r"\bi'?ll (?:do|finish|fix|handle) (?:it|that|this) (?:by hand|later|myself)\b",
)
_UNDOES = _any(
    r"\b(?:discard|revert|roll back|throw away|undo)\b(?: \w+){0,2} (?:all|everything|it|that|them|this|your)\b"
)
_THE_LOT = _any(r"\b(?:all|everything|your)\b")
_GREETING = _any(
    r"\W*(?:are you there|good (?:afternoon|evening|morning)|hallo|hello(?: there| world)?|hey(?: there)?"
    r"|hi(?: there)?|hola"
    r"|ping|sup|test|testing|warm-?up|yo|you there)\W*",
)
_AUTOMATED = _any(
    r"\A\s*(?:count|quota|warmup)\s*\Z",
    r"\A\s*(?:please )?(?:create|generate|suggest|write) an? [^.\n]{0,40}\b(?:branch name|session name|title)\b",
    r"\A\s*(?:analy[sz]e|summari[sz]e) this (?:coding )?(?:conversation|message|session|transcript)\b",
    r"\A\s*you are an? [^.\n]{0,60}\b(?:classifier|grader|judge|security monitor|summari[sz]er|title generator)\b",
    r"\A\s*(?:reply|respond|answer) with (?:exactly|just|only)\b",
)

_WORD = re.compile(r"[^\W\d_]+")
_MARK = re.compile(r"\[redacted:[^\]\s]*\]")
_ENGLISH = frozenset(
    {
        "a",
        "all",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "done",
        "fixed",
        "for",
        "from",
        "has",
        "have",
        "here",
    }
    | {
        "i",
        "in",
        "is",
        "it",
        "my",
        "no",
        "not",
        "now",
        "of",
        "on",
        "or",
        "so",
        "that",
        "the",
        "there",
        "this",
        "to",
        "was",
    }
    | {"we", "were", "what", "with", "you", "your"}
)


def says_done(text: str) -> bool:
    """The agent says that it did what was asked, or presents its result."""
    return _DONE.search(text) is not None


def gives_up(text: str) -> bool:
    """The agent says that it could not do it."""
    return _GIVES_UP.search(text) is not None


def says_not_done(text: str) -> bool:
    """The agent says that something failed, is still broken or was not done."""
    return _NOT_DONE.search(text) is not None or gives_up(text)


def says_not_ours(text: str) -> bool:
    """The agent says that the failures have nothing to do with its work."""
    return _NOT_OURS.search(text) is not None


def answers(text: str) -> bool:
    """The agent's first words answer a question."""
    return _ANSWERS.search(text) is not None


def asks_back(text: str) -> bool:
    """The agent's last sentence asks the person something."""
    asks = text.rstrip(" )*_\"'").endswith("?") and _OFFER.search(text[-240:]) is not None
    return asks or _PLEASE_TELL.search(text) is not None


def announces(text: str) -> bool:
    """The agent's last sentence says what it is about to do."""
    return _ANNOUNCED.search(text) is not None


def is_report(text: str) -> bool:
    """The text has headings or contains code."""
    return _HEADING.search(text) is not None


def asks_for_words(text: str) -> bool:
    """The person asks a question or for a text, so the reply itself is the result."""
    return any(pattern.search(text) for pattern in (_PLAIN_QUESTION, _QUESTION, _WANTS_WORDS))


def complains(text: str) -> bool:
    """The person says that it does not work or is not what they wanted."""
    return _COMPLAINS.search(text) is not None


def is_content(text: str) -> bool:
    """The person is thankful or pleased, and asks for nothing else."""
    words = {word.lower() for word in _WORD.findall(text)}
    return not words.isdisjoint(_PRAISE) and words <= _PRAISE | _FILLERS


def drops_it(text: str) -> bool:
    """The person does not want it done any longer."""
    return _DROPS.search(text) is not None


def has_it_undone(text: str) -> bool:
    """The person wants the agent's work undone."""
    return _UNDOES.search(text) is not None and (_THE_LOT.search(text) is not None or complains(text))


def is_greeting(text: str) -> bool:
    """The text is a greeting or a test message, not a task."""
    return _GREETING.fullmatch(text) is not None


def is_automated(text: str) -> bool:
    """The prompt comes from a program: warm-ups, titles, classifiers."""
    return _AUTOMATED.search(text) is not None


def is_foreign(text: str) -> bool:
    """The text is not English: mostly words with foreign letters, or a longer text without common English words."""
    words = [word.lower() for word in _WORD.findall(_MARK.sub(" ", text))]
    plain = sum(word.isascii() for word in words)
    return plain * 2 < len(words) or (len(words) >= 9 and _ENGLISH.isdisjoint(words))
