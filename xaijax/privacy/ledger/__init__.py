"""The spent part of a privacy budget, in a file that is only appended to.

Reading order:

    ledger    `Ledger`: charges before noise, answers before anyone sees them
    book      the content of the file: lines with digests
"""
