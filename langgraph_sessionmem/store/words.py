"""Word lists of the text analysis: what a question says without meaning it, and irregular forms.

Written for this package. A list only ever concerns queries or single words, so a language that has
none is searched all the same.
"""

# ruff: noqa: RUF001 - Cyrillic letters that look like Latin ones are the point here

from typing import Final


def _split(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ENGLISH_STOP: Final = _split(
    "a an the this that these those and or but if so than then as at by for from in into of off on",
    "onto out over to up with about after again against before between both down during each few",
    "more most other some such through under until very just too also only own same any all",
    "i me my mine myself we us our ours ourselves you your yours yourself he him his himself she",
    "her hers herself it its itself they them their theirs themselves one ones someone something",
    "am is are was were be been being have has had having do does did doing done can could shall",
    "should will would might must ought s t d ll m re ve don doesn didn isn aren wasn weren hasn",
    "haven hadn won wouldn shouldn couldn cannot not no nor yes",
    "what which who whom whose when where why how there here ever while because since",
    "tell know please remember recall mention mentioned say said many much kind type sort",
    "according describe called",
)

RUSSIAN_STOP: Final = _split(
    "и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее",
    "мне было вот от меня еще нет о из ему теперь когда даже ну вдруг ли если уже или ни быть был",
    "него до вас нибудь опять уж вам ведь там потом себя ничего ей может они тут где есть надо",
    "ней для мы тебя их чем была сам чтоб без будто чего раз тоже себе под будет ж тогда кто этот",
    "того потому этого какой совсем ним здесь этом один почти мой тем чтобы нее сейчас были куда",
    "зачем всех никогда можно при наконец два об другой хоть после над больше тот через эти нас",
    "про всего них какая много разве три эту моя впрочем хорошо свою этой перед иногда лучше чуть",
    "том нельзя такой им более всегда конечно всю между это какие какое каком какую сколько",
    "почему откуда чей чья чье чьи который которая которое которые ваш ваша ваше наш наша наше",
    "мою мое мои твой твоя скажи скажите расскажи напомни помнишь пожалуйста",
)

CHINESE_STOP: Final = _split(
    "什么时候 为什么 怎么样 有没有 是不是 能不能 告诉我 请告诉 什么 怎么 怎样 如何",
    "为何 哪里 哪儿 哪个 哪些 哪天 多少 几个 谁的 是谁 请问 记得 我们 你们 他们",
    "她们 这个 那个 这些 那些 以及 或者 因为 所以 是否 可以 我的 你的 他的 她的",
    "的 了 吗 呢 吧 啊 是 在 和 与 及 或 我 你 他 她 它 谁 几 哪 就 都 也",
    "很 被 把",
)
"""Cut out of a run of characters, which has no spaces to tell words."""

_IRREGULAR_ENGLISH = """
be: am is are was were been
begin: began begun
bite: bit bitten
blow: blew blown
break: broke broken
bring: brought
build: built
buy: bought
catch: caught
child: children
choose: chose chosen
come: came
cut: cutting
deal: dealt
die: dying
do: did done
draw: drew drawn
dream: dreamt
drink: drank drunk
drive: drove driven
eat: ate eaten
fall: fell fallen
feel: felt
fight: fought
find: found
fly: flew flown
foot: feet
forget: forgot forgotten
freeze: froze frozen
get: got gotten getting
give: gave given
go: went gone
grow: grew grown
hang: hung
have: has had
hear: heard
hide: hid hidden
hold: held
keep: kept
knife: knives
know: knew known
lay: laid
lead: led
learn: learnt
leave: left
lend: lent
lie: lain lying
life: lives
lose: lost losing
make: made
man: men
mean: meant
meet: met
mouse: mice
pay: paid
person: people
ride: rode ridden
ring: rang rung
rise: rose risen
run: ran
see: saw seen
sell: sold
send: sent
shake: shook shaken
shine: shone
shoot: shot
show: shown
sing: sang sung
sink: sank sunk
sit: sat
sleep: slept
speak: spoke spoken
spend: spent
stand: stood
steal: stole stolen
stick: stuck
strike: struck
swear: swore sworn
swim: swam swum
take: took taken
teach: taught
tear: tore torn
tell: told
think: thought
throw: threw thrown
tooth: teeth
understand: understood
wake: woke woken
wear: wore worn
wife: wives
win: won
woman: women
write: wrote written
"""

IRREGULAR_ENGLISH: Final[dict[str, str]] = {
    form: base
    for base, forms in (line.split(": ") for line in _IRREGULAR_ENGLISH.split("\n") if line)
    for form in forms.split()
}
"""An irregular form and the word it belongs to, as a stemmer can't know."""
