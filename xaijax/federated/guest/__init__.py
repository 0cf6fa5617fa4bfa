"""The party that keeps its rows, and answers a host as its policy allows.

Reading order:

    guest        `Guest`: opens a session, aligns identifiers, answers
    arguments    what a `Guest` is made with, read and checked
    sessions     the open connections: keys, and what was answered
    policy       `Policy`: what is allowed, stated once and checked at each request
    audit        the log of who asked for how much, chained so that no entry can be taken out
"""
