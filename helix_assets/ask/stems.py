"""The forms of an English word that have one stem (Porter's): test, tests, tested, testing.

The index has hashes of whole words, so a query lists the forms it may mean. They are made from the stem and the endings
that the algorithm removes, and those count that it brings back to the same stem.
"""

from __future__ import annotations

from functools import lru_cache

import Stemmer

SHORTEST = 3
"""A shorter word is an abbreviation; it has no forms."""
_INFLECTIONS = ("", "s", "es", "ed", "ing", "ings", "er", "ers", "y", "ies", "ied", "ying", "d", "r", "rs", "e", "i")
_ENDINGS = (
    *("ation", "ations", "ational", "ative", "atively", "atives", "ator", "ators", "ate", "ated", "ates", "ating"),
    *("ion", "ions", "ional", "ionally", "ioned", "ioning", "able", "ably", "ability", "abilities", "ible", "ibility"),
    *("ive", "ives", "ively", "iveness", "ivity", "al", "als", "ally", "ality", "alize", "alized", "alizes", "alizing"),
    *("alization", "ance", "ances", "ancy", "ancies", "ence", "ences", "ency", "encies", "ant", "ants", "ently"),
    *("ent", "ents", "ement", "ements", "ment", "ments", "ness", "iness", "eness", "ful", "fully", "fulness", "less"),
    *("ous", "ously", "ousness", "ic", "ics", "ical", "ically", "icate", "icated", "icates", "icating", "ication"),
    *("ications", "icity", "ism", "isms", "ist", "ists", "ize", "ized", "izes", "izing", "izer", "izers", "ization"),
    *("izations", "ity", "ities", "ility", "ilities", "ibilities", "ibly", "ly", "ely", "ily", "le", "ier", "iers"),
    *("ately", "ys", "yed", "or", "ors", "eful", "antly", "ered", "ering"),
    *("eds", "enting", "entative", "entation"),
)
_DOUBLED = ("", "s", "ed", "ing", "ings", "er", "ers", "able", "y", "ation", "ations")


@lru_cache(256)
def forms(word: str) -> frozenset[str]:
    """All forms with the stem of a word, itself among them; only itself if it is no English word by its letters."""
    word = word.lower()
    if len(word) < SHORTEST or not (word.isascii() and word.isalpha()):
        return frozenset((word,))
    stemmer = Stemmer.Stemmer("porter")
    stem = stemmer.stemWord(word)
    heads = {stem, stem.rstrip("i"), stem.removesuffix("e"), stem.removesuffix("l") if stem.endswith("bl") else stem}
    made = {word, *(head + ending for head in heads for ending in (*_INFLECTIONS, *_ENDINGS))}
    made |= {head + head[-1:] + ending for head in heads for ending in _DOUBLED}
    ordered = sorted(made)
    return frozenset(form for form, its in zip(ordered, stemmer.stemWords(ordered), strict=True) if its == stem)
