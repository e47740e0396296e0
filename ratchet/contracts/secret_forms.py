"""How secrets are written: each pattern finds one form, and its first group is what stays readable before the secret.

Every repetition has a limit, or cannot be entered at two places of one run of letters. So the time grows with the
length of a text, and no faster.
"""

import re
from functools import cached_property

MASK = "***"
_Q = r"""\\{0,4}["']"""
"""A quote, also one that is escaped inside another text."""
_PROSE = (
    r"(?!(?:none|null|true|false)(?:[\s,;)\]}]|$)|(?:is|are|was|has|must|may|should|cannot|not|no|and|or|the|an?|of|to|"
    r"for|from|in|it|this|needs?|requires?|expired)(?:\s|$)|\*\*\*|\$\{\w{1,80}\}(?:[\s,;'\"]|$)|[{<|>])"
)
"""No value begins so: words of a sentence, `${NAME}`, which names a variable, and what is masked."""
_PLACES = r"(?![\w-]{0,30}?[_-]?(?:file|path|name|length|policy|count|size|env|variables?|manager)(?![a-z]))"
"""What is about a secret and is none: `password_file`, `secret_name`."""
_NAME = rf"""(?:
    (?:password|passwd|passphrase|passcode|secret){_PLACES}[\w-]{{0,30}}+
  | (?<![a-z])pwd
  | (?:(?<![a-z])|(?<=db)|(?<=user))pass(?={_Q}|[ ]?=)
  | (?:api|access|account|private|signing|encryption|fernet|shared|auth|master|routing|integration|subscription)[_-]?
    (?:access[_-]?)?key(?:[_-]?id)?
  | secret\.key | x-functions-key
  | (?<![a-z])(?:credential|signature|sig)(?={_Q}|[ ]?=)
  | sharedaccesssignature
  | (?-i:(?<=[A-Z0-9]_)(?<!PRIMARY_)(?<!FOREIGN_)(?<!SORT_)(?<!PARTITION_)KEY)(?==)
  | (?<!expired)(?<!invalid)(?<!missing)(?<!authentication)(?<!unexpected)(?<!unexpected[ ])(?<!next)(?<!next_)
    (?<!pad_)(?<!eos_)(?<!bos_)(?<!unk_)(?<!mask_)(?<!sep_)(?<!cls_)(?<!continuation)
    token(?:[_-]?(?:value|secret|key|[0-9]{{1,2}}))?(?![\w-])
)"""
"""The end of the name of a secret."""
_WORD = r"""(?:[^\s,;&"')\]}<\\] | \\(?!["'nrt]) | [,;&](?![\w.-]{1,40}=)(?=[^\s"',;&]) | [)\]}](?=[^\s,;&"')\]}]))"""
"""A letter of a value without quotes. A `,` ends it where another name follows, or nothing."""
_ADDRESSES = (
    r"hooks\.slack\.com/(?:services|workflows|triggers)|outlook\.office\.com/webhook|discord(?:app)?\.com/api/webhooks|webhook\.office\.com/webhookb2|"
    r"logic\.azure\.com/workflows|chat\.googleapis\.com/v1/spaces|hc-ping\.com|ping\.healthchecks\.io|"
    r"api\.telegram\.org/(?:file/)?bot"
)
_APPRISE = (
    "slack|discord|tgram|msteams|gchat|pover|pbul|ifttt|workflows?|opsgenie|pagerduty|zulip|rocket|webexteams|mmosts?|"
    "ntfys?|twilio|sendgrid|gotifys?"
)
_TOKENS = (
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|"
    r"sk-(?=[\w-]{0,60}[0-9])[\w-]{20,}|[sr]k_(?:live|test)_\w{10,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|"
    r"pypi-[\w-]{30,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|dapi[0-9a-f]{32}|dop_v1_\w{30,}|"
    r"[0-9]{8,10}:[\w-]{35}|eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"
)
"""Keys of well-known services, bot tokens of Telegram, and JSON web tokens: each by how it begins."""
_ESCAPED = r"(?<=\\[nrt])"
"""After the end of a line, or a tab, as it is written inside another text."""
_OF_AWS_SESSION = r"[A-Za-z0-9+/][AQgw]o(?:Jb3JpZ2lu|GZXIvYXdz|DYXdz)(?:[\w+/-]|%2[BbFf]|\\/){12,}+(?:=|%3[Dd]){0,2}"
"""A session token of AWS: `IQoJb3JpZ2lu`, `FwoGZXIvYXdz` and the like. A version and a place, `origin`, `er/aws` or
`aws`, in base64. Keys that expire need it, so without it their secret key opens nothing."""


_AUTHORIZATION = rf"authorization(?:{_Q})?[ \t]{{0,5}}[:=,][ \t]{{0,5}}(?:b?{_Q})?"
_SCHEME = r"(?:bearer|basic|token|apikey|negotiate)[ \t]"
_KEY = rf"{_Q}[\w-]{{1,40}}{_Q}\s{{0,20}}:"
"""The key of an object, before its value."""
_INSIDE = r"(?:(?!(?P=end))(?:\\.|[^\\\n]))"
"""A letter of a text in quotes."""
_TO_P = r"""(?:(?![\s"'](?-i:-p))[^\n]){0,300}[\s"'](?-i:-p)"""
_USER = r"""[\s"'](?:-u|--(?:proxy-)?user(?!-))"""
"""The text up to the first flag with a password, and a flag with a login."""
_NAMES = ("pass", "pwd", "secret", "key", "credential", "sig", "token")


class Form:
    """One way to write secrets. needles: small letters, of which a text has some if it has such a secret."""

    def __init__(self, pattern: str, needles: tuple[str, ...], flags: int = 0) -> None:
        self.needles = needles
        self._pattern, self._flags = pattern, re.VERBOSE | re.IGNORECASE | flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        """Made when it is needed: all of them take 30 ms."""
        return re.compile(self._pattern, self._flags)

    def mask(self, text: str) -> str:
        """The text with `***` in place of such secrets."""
        return self._compiled.sub(rf"\g<1>{MASK}", text)


FORMS: tuple[Form, ...] = (
    # a private key, also one that is cut off, or whose lines are joined by \n
    Form(
        r"(-----BEGIN[ ][A-Z0-9 ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----)(?!\*\*\*)(?:.*?(?=-----END[ ])|.*)",
        ("private key",),
        re.DOTALL,
    ),
    # a line of its inside, alone in a line of a log; not a digest, which is hexadecimal
    Form(
        r"^([ \t]{0,8})(?-i:(?=[^\n]{0,80}[A-Z])(?=[^\n]{0,80}[g-z])(?=[^\n]{0,80}[0-9]))"
        r"[A-Za-z0-9+/]{60,80}={0,2}[ \t]*$",
        (),
        re.MULTILINE,
    ),
    # the login of an address; its password may have an @, and a / where what begins it is no port
    Form(
        r"""(://[^\s/:@"<>]{0,200}:)(?![0-9]{1,5}(?:[/?\#\s"',;)\]}]|$))
        (?:[^\s/?\#"<>]{1,400}(?=@) | [^\s@"<>]{1,400}(?=@))""",
        ("@",),
    ),
    Form(r"""(%3A%2F%2F[\w.+-]{0,100}%3A)(?:(?!%40|%2F)[^\s"'<>&]){1,400}(?=%40)""", ("%40",)),
    Form(r"""(https?://)(?!\*\*\*@)[^\s/:@"'<>]{16,400}(?=@)""", ("@",)),
    # addresses that are secrets, and the same as Apprise writes them
    Form(rf"""((?:{_ADDRESSES})/?+)(?!\*\*\*)[^\s"'<>),\]}}]{{1,2000}}""", (".com", ".io", ".org")),
    Form(rf"""(\b(?:{_APPRISE})://)(?!\*\*\*)[^\s"'<>),\]}}]{{1,2000}}""", ("://",)),
    # headers
    Form(rf"""({_AUTHORIZATION}{_SCHEME}{{1,5}})(?!\*\*\*)[^\s"',\\]+""", ("authorization",)),
    Form(rf"""({_AUTHORIZATION})(?!{_SCHEME}|\*\*\*)[^\s"'\\][^\n"'\\]*""", ("authorization",)),
    Form(
        rf"""((?<![\w-])(?:set-)?cookie(?:{_Q})?[ \t]{{0,5}}[:,][ \t]{{0,5}}(?:{_Q})?)(?!\*\*\*)[^\s"'\\][^\n"'\\]*""",
        ("cookie",),
    ),
    Form(r"""(\b(?:bearer|basic)[ \t]{1,5})(?=[^\s"']{0,100}[0-9=])[\w.~+/=-]{10,}""", ("bearer", "basic")),
    # an object with a name and a value, as in lists of variables, and the same in YAML
    Form(
        rf"""({_NAME}{_Q},\s{{0,40}}(?:{_KEY}\s{{0,20}}{_Q}[^"'\\\n]{{0,100}}{_Q},\s{{0,40}}){{0,2}}
        {_Q}value{_Q}\s{{0,20}}:\s{{0,20}}(?P<end>{_Q}))(?!\*\*\*|\$\{{\w{{1,80}}\}}(?P=end)){_INSIDE}+""",
        ("value",),
    ),
    Form(
        rf"""({_Q}value{_Q}\s{{0,20}}:\s{{0,20}}(?P<end>{_Q}))(?!\*\*\*|\$\{{\w{{1,80}}\}}(?P=end)){_INSIDE}{{1,2000}}+
        (?=(?P=end),\s{{0,40}}{_Q}(?:name|key){_Q}\s{{0,20}}:\s{{0,20}}{_Q}[\w./-]{{0,60}}?{_NAME}{_Q})""",
        ("value",),
    ),
    Form(
        rf"""({_NAME}(?:{_Q})?[ \t]{{0,20}}\n[ \t]{{0,40}}value[ \t]{{0,20}}:[ \t]{{1,20}}+)
        (?!\*\*\*|{_Q}?\$\{{\w{{1,80}}\}}{_Q}?\s)[^\n]+""",
        ("value",),
    ),
    # a value in the line after its name, alone in it
    Form(
        rf"""({_NAME}(?:{_Q})?[ \t]{{0,20}}:[ \t]{{0,20}}\r?\n[ \t]{{0,40}}+)
        (?!-[ ]|["']|[\w.-]{{1,60}}(?::(?:\s|$)|=[^=\s])){_PROSE}\S+(?=[ \t]{{0,20}}$)""",
        _NAMES,
        re.MULTILINE,
    ),
    # the same in braces, as ODBC has it, and in an address inside another one
    Form(r"((?:pwd|password|passwd)[ ]{0,5}=[ ]{0,5}\{)(?!\*\*\*)(?:[^}\n]|\}\})+", ("={", "= {")),
    Form(
        rf"""({_NAME}(?:%22)?+(?:%20)?+%3[AD](?:%20)?+(?:%22)?+)(?!\*\*\*)(?:(?!%2[26]|%3B)[^\s"'<>&;])+""",
        ("%3d", "%3a"),
    ),
    Form(r"""([?&]code=)(?!\*\*\*)[^\s"'<>),&]{8,}""", ("code=",)),
    # logins of programs, and of addresses that Go has for MySQL
    Form(rf"""(\b(?:mysql|mariadb){_TO_P})(?![-*])[^\s"',\\]+""", ("-p",)),
    Form(
        rf"""(\b(?:sshpass|(?:docker|podman|helm)[ ][^\n]{{0,40}}?login)\b{_TO_P}(?:{_Q},)?[ ]{{0,5}}(?:{_Q})?)
        (?![-*])[^\s"',\\]+""",
        ("sshpass", "login"),
    ),
    Form(
        rf"""(\b(?:curl|wget)\b(?:(?!{_USER})[^\n]){{0,300}}{_USER}(?:{_Q},)?[ =]{{0,5}}(?:{_Q})?[^\s:"']{{1,100}}:)
        (?!\*\*\*)[^\s"']+""",
        ("curl", "wget"),
    ),
    Form(
        r"""((?<![\w.+-])[\w.+-]{1,100}+:)(?!\*\*\*@)[^\s"'<>]{1,400}?(?=@(?:tcp|udp|unix)\()""",
        ("@tcp(", "@udp(", "@unix("),
    ),
    # a block of YAML
    Form(
        rf"""({_NAME}(?:{_Q})?[ \t]{{0,20}}:[ \t]{{0,20}}[|>][+-]?[ \t]{{0,20}}\n[ \t]{{1,40}}+)(?!\*\*\*)[^\n]+
        (?:\n[ \t]{{1,40}}(?![\w-]{{1,60}}:)[^\n]+)*""",
        _NAMES,
    ),
    # a name and its value in quotes, which may be the argument of a call, or a list
    Form(
        rf"""({_NAME}(?:(?:{_Q}\]?)?\s{{0,20}}(?:=>|[:=])\s{{0,20}}|{_Q},[ ]{{0,5}}(?!{_KEY})|(?<=password)[ ](?='))
        (?:[a-z_][\w.]{{0,40}}\()?[bur]{{0,2}}(?P<end>{_Q}))(?!\*\*\*|\$\{{\w{{1,80}}\}}(?P=end))
        {_INSIDE}+""",
        _NAMES,
    ),
    Form(rf"({_NAME}(?:{_Q})?\s{{0,20}}[:=]\s{{0,20}}\[)(?!\*\*\*)[^\]\n]+", _NAMES),
    # a name and its value without quotes
    Form(
        rf"""({_NAME}(?:{_Q})?[ \t]{{0,20}}(?:=>|[:=](?!=))[ \t]{{0,20}})
        (?<!pwd=(?=/)){_PROSE}(?!["'\[]|\\+["']){_WORD}+""",
        _NAMES,
    ),
    # a flag and its value; a list of arguments has commas between them
    Form(
        rf"""((?<![\w-])--[\w-]{{0,40}}?{_NAME}(?:{_Q},)?[ \t]{{1,5}}(?:{_Q})?)
        (?!-){_PROSE}(?:[^\s"',\\]|,(?=\S))+""",
        ("--",),
    ),
    # an element of XML
    Form(rf"(<(?:[\w-]{{1,40}}:)?(?:[\w.-]{{0,40}}[_.-])?{_NAME}>)(?!\*\*\*)[^<\s][^<\n]*", ("</",)),
    # keys of AWS, and what follows such a key
    Form(
        rf"""((?:\b|{_ESCAPED})(?-i:(?:AKIA|ASIA)[0-9A-Z]{{12,124}})\b[\s:,;'"|/]{{1,5}})
        [A-Za-z0-9/+]{{40}}(?![A-Za-z0-9/+=])""",
        ("akia", "asia"),
    ),
    Form(rf"(\b|{_ESCAPED})(?-i:(?:AKIA|ASIA)[0-9A-Z]{{12,124}})\b", ("akia", "asia")),
    Form(
        rf"((?<![\w+-])|(?<=%[0-9A-F][0-9A-F])|{_ESCAPED})(?-i:{_OF_AWS_SESSION})",
        ("ojb3jpz2lu", "ogzxivyxdz", "odyxdz"),
    ),
    Form(rf"((?<![\w-])|{_ESCAPED})(?-i:{_TOKENS})", ()),
)
