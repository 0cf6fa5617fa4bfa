"""Results in a file, and back: arrays and a JSON text, no pickle.

Reading order:

    npz             one .npz file, written completely or not at all
    rules_json      rules as JSON text, and back, with every field checked
    untrusted_zip   a file from anyone, checked before anything of it is read
"""
