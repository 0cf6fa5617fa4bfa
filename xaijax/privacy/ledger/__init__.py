"""What was spent of a privacy budget, in a file that is only ever appended to.

Reading order:

    ledger    `Ledger`: charges before noise, answers before anyone sees them
    file      the file: made whole, opened by one at a time, only ever longer
    book      what the file says: lines with digests
"""
