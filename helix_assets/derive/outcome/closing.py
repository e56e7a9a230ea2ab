"""What a person's words say: a question, a complaint, thanks, a greeting.

Belongs here: patterns over short English texts, each for one meaning. Not here: what an agent says (`reply`), what it
means for a session (`ending`). A text in another language matches nothing, and `is_foreign` detects it.
"""

from __future__ import annotations

import re


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


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
