"""Prompts to begin with: one for each kind of text that the bundled target was trained on."""

EXAMPLES = {
    "Story from its opening": (
        "Continue the story: Once upon a time there was a little fox who could not sleep. One "
        "night she heard a soft song from the forest."
    ),
    "Story from words": "Write a story with the words: lantern, river and brave",
    "Dialogue": "Can you find me a restaurant in San Jose that serves Mexican food?",
    "Reading": (
        "Read this and answer the question.\n\nThe old miller had three sons. To the eldest he "
        "left the mill, to the second his donkey, and to the youngest only the cat.\n\n"
        "Question: What did the youngest son get?"
    ),
    "Sum": (
        "In the morning Anna has 24 apples. Anna buys 13 more and then gives 9 away. How many "
        "apples does Anna have now?"
    ),
    "Reverse": "Reverse this list: apple, river, cloud, stone",
    "Sort": "Sort from smallest to largest: 83, 7, 41, 19",
    "Letters": "How many times is the letter r in the word strawberry?",
    "Spanish": "Say 742 in Spanish.",
    "Python": (
        "Write a one-line Python function f(x) that takes a number x and multiplies by 3, then "
        "adds 12."
    ),
}
