-- What the codes of some users stand for.
SELECT dictionary.number, dictionary.code, dictionary.cell
FROM dictionary JOIN sampled_code ON sampled_code.number = dictionary.number AND sampled_code.code = dictionary.code
