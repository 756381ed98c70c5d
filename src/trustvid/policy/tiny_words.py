"""What the tokenizer of a tiny model is trained on: the shipped prompts, and the words of evidence and answers."""

from __future__ import annotations

from importlib.resources import files

# Words of the tools' reports and of answers that the prompts do not hold; common ones become one token each.
WORDS = """
red orange yellow green blue purple pink brown black white grey dark light
car bus van truck house tower building bridge road street tree door window sign wall floor lamp box crate chair table
sofa bed shelf plant person drone robot landmark square round circle triangle cylinder cube
left right above below behind front near far upper lower middle centre top bottom north south east west
forward backward straight up down turn turns turned turning move moves moved moving rise rises descend descends
climb stop stops hover rotate rotates pan tilt camera heading metres metre degrees seconds second frame frames
read_text detect_objects recognize_action track_temporal caption_frame assess_quality
spatial attribute temporal action text blur noise glare occlusion darkness clean motion low_light unknown
question options answer evidence tier high medium low confidence score reliability disturbance dominant error none
sub_query sub_queries type result results tool tools found nothing shown times these letters is written on the
before after first last then while during between same different more most less least how many where which what when
A. B. C. D. E. F. yes no zero one two three four five six seven eight nine ten
0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0 pixels clip video observation observations word words thing things
"""


def training_texts() -> list[str]:
    """The texts, in a fixed order: every prompt file of the agent by path, then the words, with a blank before each."""
    prompts = files("trustvid") / "agent" / "prompts"
    found = [
        (f"{folder.name}/{file.name}", file)
        for folder in prompts.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
    ]
    texts = [file.read_text(encoding="utf-8") for _, file in sorted(found, key=lambda pair: pair[0])]
    return [*texts, *map(spoken, WORDS.split())]


def spoken(word: str) -> str:
    """A word as it stands in running text, often enough to be learnt as a whole."""
    return f" {word} {word}"
