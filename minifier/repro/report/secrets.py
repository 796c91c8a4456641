"""Find texts that look like secrets: keys, tokens, passwords in URLs, addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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


_UNQUOTED = r"[^\s\"'`,;&(){}\[\]<>\\]"
# Names after which a value is a secret, whatever it looks like, and names that need a value like a random one.
_PASSWORDS = (
    r"(?:passw(?:or)?d|passphrase|passcode|pgpass|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|"
    r"(?:api|access|account|private|auth|signing|encryption)[_ -]?key)"
)
_TOKENS = r"(?:token|auth|credentials?|dsn|cookie|session(?:[_-]?id)?)"
_ASSIGNED = r"(?:\\?[\"'`])?(?P<assigned>\s{0,3}(?::|=|=>)\s{0,3})"
_OF_PASSWORDS = "passw passphrase passcode pgpass pwd secret key"
_OF_TOKENS = "token auth credential dsn cookie session"


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret. Of a match only the group `secret` is one, if there is that group; the rest may stay.

    Each match has one of the texts `needs`, in lower case: looking for these first is fast. `is_secret` decides about
    a match. `everywhere` says whether the same characters are a secret without the shape too.
    """

    kind: str
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    placeholder: str = "<secret>"
    is_secret: Callable[[re.Match[str]], bool] = lambda _: True
    everywhere: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """A secret in a text, from `start` to `end`."""

    kind: str
    start: int
    end: int
    placeholder: str
    everywhere: bool


def _row(
    kind: str, needs: str, pattern: str, flags: int = 0, is_secret: Callable[[re.Match[str]], bool] = lambda _: True
) -> Shape:
    return Shape(kind, tuple(needs.split()), re.compile(pattern, flags), is_secret=is_secret)


def _prefixed(kind: str, prefixes: str, characters: str = r"[A-Za-z0-9_-]", least: int = 16) -> Shape:
    """Return the row of keys that begin with a provider's prefix and go on with at least `least` drawn characters."""
    prefix = "|".join(prefixes.split())
    pattern = rf"(?<![A-Za-z0-9])(?:{prefix})(?P<drawn>{characters}{{{least},}})"
    return _row(kind, prefixes.lower(), pattern, is_secret=is_drawn)


SHAPES: tuple[Shape, ...] = (
    _row(
        "private key or certificate",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]+-----[\w+/=\\\s:,.-]*?(?:-----END [A-Z0-9 ]+-----|(?=[^\w+/=\\\s:,.-])|\Z)",
    ),
    _row("JWT", "eyj", r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.(?:[\w-]{4,}(?:\.[\w-]*)?)?"),
    _row("user in a URL", "://", r"(?<=://)(?!git@)(?P<secret>[^\s/\"'`<>]{1,200})@(?=[\w\[<])"),
    _row(
        "webhook",
        "hook",
        r"(?<=://)(?P<secret>hooks\.[\w.-]+/[\w/.-]{10,}|[\w.-]+/(?:[\w.-]+/)*web-?hooks?(?:/[\w.@-]+)+|"
        r"[\w.-]*webhook[\w.-]*/[\w/.@-]{10,})",
        re.IGNORECASE,
    ),
    _row(
        "parameter of a URL",
        "? &",
        r"[?&](?:sig|signature|x-amz-\w+|key|code|\w*token|\w*secret|password|api_?key)=(?P<secret>[\w%.~+/=-]{6,})",
        re.IGNORECASE,
    ),
    _prefixed("OpenAI or Anthropic key", "sk-", least=12),
    _prefixed("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]", least=12),
    _prefixed("GitHub fine-grained token", "github_pat_", r"\w"),
    _row(
        "Hugging Face token",
        "hf_ api_org_",
        r"(?<![A-Za-z0-9])(?:hf|api_org)_(?:[A-Za-z0-9]{30,}|(?=[A-Za-z]*\d)[A-Za-z0-9]{12,})",
    ),
    _row("Slack token", "xox", r"(?<![A-Za-z0-9])xox[a-z]-[A-Za-z0-9-]{8,}"),
    _prefixed("Slack app token", "xapp-", "[A-Za-z0-9-]"),
    _row(
        "AWS key id", "akia asia aroa aida abia acca", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{12,}"
    ),
    _row("Google API key", "aiza", r"(?<![A-Za-z0-9])AIza[\w-]{30,}"),
    _row("Google OAuth secret", "ya29. gocspx- 1//0", r"(?<![A-Za-z0-9])(?:ya29\.|GOCSPX-|1//0)[\w-]{16,}"),
    _prefixed("GitLab token", "glpat- gldt- glrt- glptt- glsoat- glft- glcbt- glagent- gloas- glimt-", least=12),
    _row("npm token", "npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}"),
    _row("PyPI token", "pypi-", r"(?<![A-Za-z0-9])pypi-(?:AgE[\w-]{8,}|[\w-]{24,})"),
    _row("Stripe key", "_live_ _test_ whsec_", r"(?<![A-Za-z0-9])(?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,}"),
    _row("SendGrid key", "sg.", r"(?<![A-Za-z0-9])SG\.[\w-]{12,}\.[\w-]{12,}"),
    _row("Twilio id or key", "ac sk", r"(?<![A-Za-z0-9])(?:AC|SK)[0-9a-f]{32}(?![A-Za-z0-9])"),
    _row("Telegram bot token", ":", r"(?<![A-Za-z0-9])\d{8,10}:[A-Za-z0-9_-]{35}(?![\w-])"),
    _row("Discord bot token", ".", r"(?<![A-Za-z0-9])[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}"),
    _row("Mailchimp key", "-us", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?!\w)"),
    _row("Mailgun key", "key-", r"(?<![A-Za-z0-9])key-[0-9a-z]{32}(?!\w)"),
    _row("Square token", "sq0 eaaa", r"(?<![A-Za-z0-9])(?:sq0[a-z]{3}-[\w-]{20,}|EAAA[\w-]{50,})"),
    _row("Shopify token", "shp", r"(?<![A-Za-z0-9])shp(?:at|ca|pa|ss)_[0-9a-fA-F]{24,}"),
    _row("DigitalOcean token", "_v1_", r"(?<![A-Za-z0-9])do[opr]_v1_[0-9a-f]{32,}"),
    _row("Databricks token", "dapi", r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}"),
    _prefixed("Docker token", "dckr_pat_ dckr_oat_", least=16),
    _row("Vault token", "hvs. hvb. hvr.", r"(?<![A-Za-z0-9])(?:hvs|hvb|hvr)\.[\w-]{20,}"),
    _row("Grafana token", "glsa_ glc_", r"(?<![A-Za-z0-9])gl(?:sa|c)_[\w=+/]{20,}"),
    _prefixed("key of a model provider", "gsk_ r8_ xai- pplx- nvapi- fw_ tgp_v1_ co-", least=20),
    _prefixed("Linear or Notion token", "lin_api_ ntn_ secret_", "[A-Za-z0-9]", least=30),
    _row("New Relic or Artifactory key", "nrak- akcp", r"(?<![A-Za-z0-9])(?:NRAK-[A-Z0-9]{20,}|AKCp[A-Za-z0-9]{20,})"),
    _row(
        "age or OpenSSH key",
        "age-secret-key-1 ssh-",
        r"AGE-SECRET-KEY-1[A-Z0-9]{20,}|\bssh-(?:rsa|ed25519) AAAA[\w+/=]{40,}",
    ),
    _row(
        "Authorization header",
        "authorization",
        r"\bauthorization[\"'\\]{0,2}\s{0,3}[:=]\s{0,3}[\"'\\]{0,2}(?:(?:bearer|basic|token|digest)\s+)?(?P<secret>[\w.~+/=-]{8,})",
        re.IGNORECASE,
    ),
    _row(
        "Authorization header",
        "bearer basic token",
        r"\b(?:bearer|basic|token)\s+(?P<secret>(?P<drawn>[\w.~+/=-]{16,}))",
        re.IGNORECASE,
        is_drawn,
    ),
    _row("cookie", "cookie:", r"\b(?:set-)?cookie:\s*(?P<secret>\w[^\s=\"']*=[^\n\"'\\]{6,})", re.IGNORECASE),
    _row(
        "value named as a password",
        _OF_PASSWORDS,
        rf"{_PASSWORDS}{_ASSIGNED}\\?(?P<quote>[\"'])(?P<secret>[^\"'\n\\]{{6,}})",
        re.IGNORECASE,
        is_chosen,
    ),
    _row(
        "value named as a password",
        _OF_PASSWORDS,
        rf"{_PASSWORDS}{_ASSIGNED}(?P<secret>{_UNQUOTED}{{6,}})",
        re.IGNORECASE,
        is_chosen_word,
    ),
    _row(
        "value named as a key",
        _OF_TOKENS,
        rf"{_TOKENS}{_ASSIGNED}(?:\\?[\"'])?(?P<secret>{_UNQUOTED}{{8,}})",
        re.IGNORECASE,
        is_random,
    ),
    # `x @ self.weight` is a product of matrices, and everybody is git@github.com.
    Shape(
        "e-mail address",
        ("@",),
        re.compile(
            r"(?<![\w.+%-])(?!git@)[\w.+%-]+@(?!self\.|torch\.)(?:[A-Za-z0-9-]+\.)+(?!weight\b)[a-z]{2,24}(?![\w(\[@-]|\.\w)"
        ),
        "<e-mail>",
        everywhere=False,
    ),
    # Four numbers, of which the first and another have two digits: more than most versions have. IPv6: global or local.
    Shape(
        "IP address",
        (".", ":"),
        re.compile(
            r"(?<![\w.+=-])(?:10|(?:[1-9]\d|1\d\d|2[0-5]\d)(?=[\d.]*\.\d\d))(?:\.\d{1,3}){3}(?![\w+-]|\.\w)|"
            r"(?<![\w:.])(?:[23][0-9a-f]{3}|f[de][0-9a-f]{2})(?::[0-9a-f]{0,4}){3,7}(?![\w:])"
        ),
        "<ip>",
        everywhere=False,
    ),
)


def find_secrets(text: str) -> Iterator[Found]:
    """Yield what looks like a secret, in the order of the table; findings may overlap."""
    lowered = text.lower()
    for shape in SHAPES:
        if not any(needed in lowered for needed in shape.needs):
            continue
        for match in shape.pattern.finditer(text):
            group = "secret" if "secret" in shape.pattern.groupindex else 0
            if match.start(group) < match.end(group) and shape.is_secret(match):
                yield Found(shape.kind, match.start(group), match.end(group), shape.placeholder, shape.everywhere)
