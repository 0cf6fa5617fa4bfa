"""Language models: prompts as text, whose segments are the players.

Reading order:

    explainer   `PromptExplainer`: prompts and targets in, rows and players for `Explainer` out
    causal_lm   `CausalLM`: a causal model, what it answers to rows of tokens, greedy generation
    torch_lm    `CausalModule`: the same of a causal module of PyTorch, with its own cache
    prompts     texts become tokens, segments and targets, by the user's tokenizer
    layout      the columns of each segment's tokens in a row, and the tokens that a hybrid keeps
"""
