"""Whole numbers from 0 to 9999 in Spanish and French words."""

from collections.abc import Callable

_SPANISH_SMALL_TEXT = """
    cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince
    dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro
    veinticinco veintiséis veintisiete veintiocho veintinueve
"""
_SPANISH_TENS_TEXT = """
    treinta cuarenta cincuenta sesenta setenta ochenta noventa
"""
_SPANISH_HUNDREDS_TEXT = """
    ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos
    ochocientos novecientos
"""
_FRENCH_SMALL_TEXT = """
    zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze
    seize dix-sept dix-huit dix-neuf
"""
_FRENCH_TENS_TEXT = """
    vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt
"""
_SPANISH_SMALL = _SPANISH_SMALL_TEXT.split()
_SPANISH_TENS = _SPANISH_TENS_TEXT.split()
_SPANISH_HUNDREDS = _SPANISH_HUNDREDS_TEXT.split()
_FRENCH_SMALL = _FRENCH_SMALL_TEXT.split()
_FRENCH_TENS = _FRENCH_TENS_TEXT.split()


def spanish(number: int) -> str:
    """The Spanish words for `number` (0 to 9999)."""
    if number == 100:
        return "cien"
    if number < 30:
        return _SPANISH_SMALL[number]
    if number < 100:
        tens, ones = _SPANISH_TENS[number // 10 - 3], number % 10
        return f"{tens} y {_SPANISH_SMALL[ones]}" if ones else tens
    if number < 1000:
        return _joined(_SPANISH_HUNDREDS[number // 100 - 1], number % 100, spanish)
    thousands = number // 1000
    head = "mil" if thousands == 1 else f"{spanish(thousands)} mil"
    return _joined(head, number % 1000, spanish)


def french(number: int) -> str:
    """The French words for `number` (0 to 9999)."""
    if number < 20:
        return _FRENCH_SMALL[number]
    if number < 100:
        return _french_tens(number)
    unit, name = (100, "cent") if number < 1000 else (1000, "mille")
    count, rest = divmod(number, unit)
    head = name if count == 1 else f"{french(count)} {name}"
    if unit == 100 and count > 1 and not rest:
        head += "s"
    return _joined(head, rest, french)


def _french_tens(number: int) -> str:
    tens = _FRENCH_TENS[number // 10 - 2]
    # The seventies and nineties go on counting from sixty and from eighty.
    ones = number % 20 if number >= 60 else number % 10
    if not ones:
        return "quatre-vingts" if number == 80 else tens
    if ones in (1, 11) and number < 80:
        return f"{tens} et {_FRENCH_SMALL[ones]}"
    return f"{tens}-{_FRENCH_SMALL[ones]}"


def _joined(head: str, rest: int, words: Callable[[int], str]) -> str:
    return f"{head} {words(rest)}" if rest else head
