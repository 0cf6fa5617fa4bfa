"""The party that explains: it asks each guest once, then explains in its own process.

Reading order:

    host        `Host`: from instances and guests to an Explanation
    queries     the conversation with one guest
    answers     what guests answered, kept in memory or in a file, so that nothing is asked twice
"""
