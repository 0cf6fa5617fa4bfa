"""Results in a file, and back: arrays and a JSON text, no pickle.

Reading order:

    npz             one .npz file, written whole or not at all
    rules_json      rules as JSON text, and back, with every field looked at
    untrusted_zip   a file from anyone, looked at before anything of it is read
"""
