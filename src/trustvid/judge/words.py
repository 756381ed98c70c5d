"""Small word lists of the judge that reads without a model."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COLOURS = _words(
    "red orange yellow green cyan blue purple pink brown black white grey gray beige gold golden silver violet magenta "
    "turquoise teal navy maroon crimson scarlet"
)

# A word of a question that stands for any of a kind: "Is a colour named?" is answered by "red".
CATEGORIES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("colour", "color"), COLOURS),
    "direction": _words("left right ahead behind front back forward backward up down north south east west"),
    "sign": frozenset(),
    "number": _words("one two three four five six seven eight nine ten"),
    "camera": _words("camera pan pans zoom zooms tilt tilts shot dolly tracking static handheld angle close-up"),
    "person": _words("person people man men woman women boy girl child children"),
}

# Words that carry nothing of a question's matter.
STOP_WORDS = _words(
    "a an the of to in on at by for with from into and or but is are was were be been being do does did has have had "
    "it its this that these those there their they them he she his her you your i we our as if then than so such not "
    "no yes any all some each every which what who whom whose where when why how can could may might must shall should "
    "will would about after before during between out over under up down again only also very more most other own same "
    "both few s t just against"
)

# Words about the task instead of the video.
META_WORDS = _words(
    "response answer text description describe describes described caption mention mentions mentioned mentioning say "
    "says said state states stated include includes included including contain contains give gives given name names "
    "named provide provides provided attempt attempts attempted try tries describing video clip model according list "
    "lists listed following option statement correct correctly explicitly specific specified use uses used tell tells "
    "sentence sentences item items identify identifies identified write writes written infer infers inferred compare "
    "compares compared kind kinds sum sums summed read reads telling given speak speaks"
)

NEGATIONS = _words("not no never without nor neither none isn't aren't wasn't doesn't don't cannot can't")

# A question with one of these asks whether something is left out.
AVOIDING = _words(
    "avoid avoids avoided avoiding refrain refrains omit omits omitted exclude excludes excluded excluding without "
    "free skip skips leave leaves left-out"
)
