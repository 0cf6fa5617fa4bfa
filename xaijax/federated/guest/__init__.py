"""The party that keeps its rows, and answers a host as its policy allows.

Reading order:

    guest        `Guest`: opens a session, aligns identifiers, answers
    arguments    what a `Guest` is made with, read and checked
    sessions     the open connections: keys, and what was answered
    policy       `Policy`: what is allowed, stated once and checked at each request
    noise        noise that follows from the secret: asking again does not average it out
    counts       how often each identifier was asked for, over all sessions and restarts
    audit        the log of who asked for how much, chained so that no entry can be taken out
"""
