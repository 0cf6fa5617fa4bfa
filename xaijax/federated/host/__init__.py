"""The party that explains: it asks each guest once, then explains in its own process.

Reading order:

    host        `Host`: from instances and guests to an Explanation
    arguments   what a `Host` is made with, read and checked
    joint       the use of an arbiter, as a model of own columns and numbers of tokens
    asking      the conversation with one guest
    answers     what guests answered, kept in memory or in a file, so that nothing is asked twice
"""
