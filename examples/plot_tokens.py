"""The words of a sentence: which of them speak for a class.

What one sees: the words of a review, orange where they speak for a good one and blue where against
it. Under each word stands its value. "not" and "bad" share what "not bad" says.

When to use it: for one sentence, or any list of words. The title adds them up: the base value is
the answer to the sentence without any word.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import xaijax as xj

GOOD = "a good film; good music and a good story; not bad at all; not boring; the story is not bad"
GOOD += "; a warm and funny film; funny from start to end; the music is not bad"
BAD = "a bad film; bad music and a bad story; not good at all; not funny; the story is not good"
BAD += "; a cold and boring film; boring from start to end; the music is not good"
WORDS = "the music is not bad but the story is boring".split()


def main(picture: str = "tokens.png") -> xj.Explanation:
    """Explain one review by a model of words and pairs of neighbours; a word away is a gap."""
    texts, label = [*GOOD.split("; "), *BAD.split("; ")], [1] * 8 + [0] * 8
    fitted = make_pipeline(CountVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10))
    fitted.fit(texts, label)

    def chance(rows):  # 1 where a word stands, 0 where it is away
        kept = np.where(rows == 1, WORDS, "gap")
        return fitted.predict_proba([" ".join(row) for row in kept])[:, 1]

    nothing, everything = xj.Baseline(np.zeros(len(WORDS))), np.ones((1, len(WORDS)))
    explainer = xj.Explainer(xj.as_model(chance, backend="host"), nothing)
    explanation = explainer(everything, progress=False)

    figure, axes = plt.subplots(figsize=(7, 1.1), layout="constrained")
    xj.plots.tokens(explanation, WORDS, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
