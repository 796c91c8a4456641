"""Tell whether a text of a secret's shape is one: no identifier, no version, no product of two tensors."""

from __future__ import annotations

import functools
import ipaddress
import re
from importlib import metadata

_MIN_RUN, _MIN_CHANGES_OF_CASE = 20, 3  # of letters, in what a program has drawn
_NAME = re.compile(r"[A-Za-z_]+\d*(?:_[a-z0-9]+)*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_MASK = re.compile(r"[*.xX_ -]+|<.*>|\W+")
# What stands where a password would, and is none.
_NO_PASSWORDS = re.compile(
    r"password|passwd|passphrase|secret|string|optional|required|default|enabled|disabled|unknown|invalid|"
    r"missing|incorrect|expired|getpass|please|cannot|should"
)
# A sentence goes on after a blank and a letter; the value of `name=value` may be followed by the next.
_GOES_ON = re.compile(r"[ \t]+\w")
_COUNTRIES = re.compile(
    r"a[cdefgilmoqrstuwxz]|b[abdefghijmnorstvwyz]|c[acdfghiklmnoruvwxyz]|d[ejkmoz]|e[cegrstu]|f[ijkmor]|"
    r"g[abdefghilmnpqrstuwy]|h[kmnrtu]|i[delmnoqrst]|j[emop]|k[eghimnprwyz]|l[abcikrstuvy]|"
    r"m[acdeghklmnopqrstuvwxyz]|n[acefgilopruz]|o[m]|p[aefghklmnrstwy]|q[a]|r[eosuw]|s[abcdeghijklmnorstuvxyz]|"
    r"t[cdfghjklmnortvwz]|u[agksyz]|v[aceginu]|w[fs]|y[et]|z[amw]"
)
# Ends of `x@layer.weight`, which no domain has.
_ATTRIBUTES = re.compile(
    r"weight|weights|bias|data|grad|real|imag|shape|size|dtype|device|layout|values|indices|matrix|tensor|"
    r"kernel|proj|scale|buffer|module"
)
# What stands right ahead of a dotted number that is a version.
_OF_VERSION = re.compile(
    r"(?:(?:version|release|revision)\b[\w ]{0,10}|(?:cuda|cudnn|cublas|nccl|rocm|nvidia|toolkit)[\w.-]*|-cu\d+|\bv|"
    r"[=<>~!]=)\W{0,24}$",
    re.IGNORECASE,
)
_NAME_AHEAD = re.compile(r"([A-Za-z][\w.-]*) +$")
_MAX_AHEAD = 48  # characters that are read ahead of a dotted number
_HOME_NETWORK = ipaddress.IPv4Network("192.168.0.0/16")


def _looks_drawn(value: str) -> bool:
    """Whether a program drew the characters: with digits, in one long run, or in upper and lower case at random."""
    changes = len(re.findall(r"[a-z][A-Z]", value))
    return (
        re.search(rf"\d|[A-Za-z]{{{_MIN_RUN}}}", value) is not None
        or changes >= _MIN_CHANGES_OF_CASE
        or (changes > 0 and re.search(r"[A-Z]{2,}[a-z]", value) is not None)
    )


def is_drawn(match: re.Match[str]) -> bool:
    """Whether the value after a prefix is drawn, and no word: `sk-learn-contrib` has that prefix as well."""
    return _looks_drawn(match["drawn"])


def is_random(match: re.Match[str]) -> bool:
    """Whether the value is drawn, and neither an identifier like `arg12_1` nor an attribute."""
    value = match["secret"]
    has_both = re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    if not has_both and not re.search(rf"[A-Za-z]{{{_MIN_RUN}}}", value):
        return False
    return _NAME.fullmatch(value) is None or (len(value) >= _MIN_RUN and "." not in value)


def is_chosen(match: re.Match[str]) -> bool:
    """Whether a value after the word password is one, no mask, name of attributes or word of a sentence."""
    value = match["secret"]
    return not (_MASK.fullmatch(value) or _ATTRIBUTE.fullmatch(value) or _NO_PASSWORDS.fullmatch(value.lower()))


def is_chosen_word(match: re.Match[str]) -> bool:
    """Whether a value without quotes, after the word password, is one: with digits, or where no sentence goes on."""
    if not is_chosen(match):
        return False
    ends = match["assigned"] == "=" or not _GOES_ON.match(match.string, match.end())
    return ends or re.search(r"\d", match["secret"]) is not None


def is_mail(match: re.Match[str]) -> bool:
    """Whether `a@b.c` is an address of mail: no product of matrices, no account that everybody shares."""
    name, _, domain = match[0].partition("@")
    top, end = match["top"], match.string[match.end() : match.end() + 1]
    if name in ("git", "self") or domain.startswith(("self.", "torch.")) or end in ("(", "[", "@"):
        return False
    is_domain = _COUNTRIES.fullmatch(top.lower()) if len(top) == 2 else not _ATTRIBUTES.fullmatch(top.lower())
    return bool(is_domain) and (top.islower() or top.isupper())


def is_address(match: re.Match[str]) -> bool:
    """Whether four numbers are the address of a machine: no version, not this machine's own loopback."""
    text, start = match.string, match.start()
    try:
        address = ipaddress.IPv4Address(match[0])
    except ValueError:  # a number over 255, or with a leading zero
        return False
    if address.is_loopback or address.is_unspecified or match[0] == "255.255.255.255":
        return False
    if address in _HOME_NETWORK:
        return True
    ahead = text[max(0, start - _MAX_AHEAD) : start].rpartition("\n")[2]
    names, versions = _installed()
    name = _NAME_AHEAD.search(ahead)
    is_version = match[0] in versions or (name is not None and name[1].lower() in names)
    return not is_version and _OF_VERSION.search(ahead) is None


@functools.cache
def _installed() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names, in lower case, and the versions of the installed distributions."""
    pairs = [(each.name.lower(), each.version) for each in metadata.distributions() if each.name]
    return frozenset(name for name, _ in pairs), frozenset(version for _, version in pairs)


def is_long_address(match: re.Match[str]) -> bool:
    """Whether groups with colons are an IPv6 address: no slice like `x[1::2]`, no time, no name in C++."""
    groups = [group for group in match[0].split(":") if group]
    try:
        address = ipaddress.IPv6Address(match[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or len(groups) < 2:
        return False
    has_letters = re.search(r"[a-f]", match[0], re.IGNORECASE) and re.search(r"\d", match[0])
    return bool(has_letters and max(map(len, groups)) > len("ff")) or len(groups) > len("ffff")
