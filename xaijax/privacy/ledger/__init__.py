"""What was spent of a privacy budget, in a file that is only ever appended to.

Reading order:

    ledger    `Ledger`: charges before noise, answers before anyone sees them
    book      what the file says: lines with digests
"""
