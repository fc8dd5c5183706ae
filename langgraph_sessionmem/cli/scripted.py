"""The demo's conversation, and the two scripted models in it.

A script decides what the models say, so the demo needs no key and no network. It can't decide what
they know: the agent looks its answer up in the text of the messages it is called with, and the
summarizer reads the messages it is given.
"""

import html
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from typing_extensions import override

UNKNOWN = "I can't see that in front of me."


class Look(NamedTuple):
    """A question that the agent answers by looking.

    Attributes:
        question: what the customer asks.
        pattern: what the answer looks like in the messages.
        answer: what the agent says, with what it found.
    """

    question: str
    pattern: str
    answer: str


OPENING = (
    (
        "Hi! I need help with order A-4711: the coffee grinder with the copper lid came with a "
        "cracked jar.",
        "I am sorry to hear that, and I have your order here. Would you like a refund or a "
        "replacement?",
    ),
    (
        "I have decided: a replacement, not a refund.",
        "Good, I will arrange it. To which address should it go?",
    ),
    (
        "Send it to 12 Harbour Lane in Leith. Please write e-mails only.",
        "It is on its way to you in three to five working days. The courier leaves it with a "
        "neighbour if nobody is at home. You do not have to send the cracked jar back; wrap it in "
        "paper before you throw it away. The lid and the motor of your grinder fit the new jar.",
    ),
)
"""What matters is said here, in the first three turns."""
SMALL_TALK = (
    (
        "How do I clean the burrs?",
        "Unplug the grinder and turn the upper burr to the left until it comes off. Brush both "
        "burrs with the dry brush from the box; never use water, because the steel rusts within a "
        "day. A spoonful of uncooked rice, ground coarsely, takes the old oil off the parts that "
        "the brush does not reach. Do that once a month, or each time you change the beans.",
    ),
    (
        "How fine should it be for a moka pot?",
        "A little coarser than for espresso: setting six to eight. If the pot hisses and the "
        "coffee tastes burnt, go two settings coarser. If it gurgles within a minute and tastes "
        "thin, go one finer. Fill the basket without pressing, and take the pot off the stove as "
        "soon as the stream turns pale. Warm water in the base makes it quicker and milder.",
    ),
    (
        "And for a French press?",
        "Coarse, setting eighteen to twenty, like sea salt. Use sixty grams for a litre, wait four "
        "minutes, break the crust with a spoon, and wait for another five before you press. If the "
        "cup is muddy, grind coarser rather than pressing harder. With light roasts, one or two "
        "settings finer brings out more of the sweetness.",
    ),
    (
        "Why does it smell of rubber?",
        "That is the drive belt, which is new and loses the smell within about ten uses. Let the "
        "machine run empty for ten seconds with the window open, wait for a minute, and do that "
        "three times. If the smell gets stronger, or if you see smoke, stop and write to us: then "
        "the motor is stuck and the fuse did not do its work.",
    ),
    (
        "How long do the burrs last?",
        "About five years at two cups a day, or some four hundred kilograms of coffee. You notice "
        "it by the taste first: the cup gets flat and bitter at once, because dull burrs crush "
        "the beans and make more dust. New ones come as a pair with three screws. Changing them "
        "takes ten minutes, and the setting has to be found again afterwards.",
    ),
    (
        "Can I grind spices in it?",
        "Dry ones such as pepper and coriander, yes; cloves and cinnamon leave an oil whose taste "
        "stays in the plastic for weeks. Nothing moist and no sugar. Afterwards grind a handful of "
        "rice and wipe the chute. Many of our customers keep a second, cheaper grinder for that, "
        "and so would we.",
    ),
    (
        "Why does the hopper stop before it is empty?",
        "Oily beans stick to its walls, and the last few jump about above the burrs instead of "
        "falling in. Give it a tap, or put the little silicone bellows on top and press it twice. "
        "If it stops while it is full, the safety switch under the hopper is not closed: lift it "
        "off, blow out the dust, and turn it until you hear a click.",
    ),
    (
        "Can it go into the dishwasher?",
        "The hopper and the jar may go into the upper basket at up to fifty degrees, without the "
        "drying programme. Neither the burrs nor the brush may: the burrs rust and the brush loses "
        "its bristles. Let everything dry overnight before you fill it again, because a few drops "
        "are enough to make the beans swell and to clog the chute.",
    ),
    (
        "Does it work in the United States?",
        "Only with a transformer, as the motor is made for 230 volts. A plug adapter alone is not "
        "enough: the machine would turn at half its speed and overheat. A transformer for 300 "
        "watts does it. There is a model for 110 volts as well, with the same burrs, and the jar, "
        "the brush and the spare parts fit both of them.",
    ),
)
"""What pushes it out of the window."""
ORDER = Look(
    "Back to my case: which order number did I give you?",
    r"\bA-\d{4}\b",
    "Your order number is {}.",
)
DECISION = Look(
    "And was it a refund or a replacement that I wanted?",
    r"(?<=: )an? \w+, not an? \w+",
    "You wanted {}.",
)
LID = Look("Which colour is the lid of my grinder?", r"(?<=with the )\w+(?= lid)", "It is {}.")
LOOKS = (ORDER, DECISION, LID)


def found_in(messages: Sequence[BaseMessage], look: Look) -> dict[str, list[str]]:
    """What the messages say to a question: each message's id, with what was found in it.

    The question itself, which is the last message of the user, does not count.
    """
    current = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
    found = {
        str(message.id): re.findall(look.pattern, html.unescape(message.text))
        for at, message in enumerate(messages)
        if at != current
    }
    return {name: hits for name, hits in found.items() if hits}


_PATTERNS = (
    ("user", "current_goal", "set", "", r"I need (help with order A-\d{4})"),
    ("user", "collected_fields", "set", "order number", r"order (A-\d{4})"),
    ("assistant", "pending_questions", "set", "resolution", r"Would you like .*?\?"),
    ("user", "user_choices", "set", "resolution", r"I have decided: (.*?)\."),
    ("user", "pending_questions", "close", "resolution", r"I have decided: (.*?)\."),
    ("assistant", "pending_questions", "set", "address", r"To which address .*?\?"),
    ("user", "collected_fields", "set", "address", r"Send it to (.*?)\."),
    ("user", "pending_questions", "close", "address", r"Send it to (.*?)\."),
    ("user", "temporary_constraints", "set", "contact", r"Please (write e-mails only)\."),
    ("user", "current_step", "set", "", r"^(?:How|And for|Why|Can|Does) .*\?$"),
)
"""Who says it, the ledger's field, what happens to which entry, and what it looks like."""


class Scripted(BaseChatModel):
    """A chat model whose answers are a function of the messages it is called with.

    Attributes:
        script: the function.
    """

    script: Callable[[Sequence[BaseMessage]], AIMessage]

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"

    @override
    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=tools, tool_choice=tool_choice)

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.script(messages))])


def agent_script(messages: Sequence[BaseMessage]) -> AIMessage:
    """The agent's answer: looked up in the messages if it is one of `LOOKS`, else recited."""
    question = [one for one in messages if isinstance(one, HumanMessage)][-1].text
    for look in LOOKS:
        if look.question == question:
            hits = [hit for found in found_in(messages, look).values() for hit in found]
            return AIMessage(look.answer.format(hits[0]) if hits else UNKNOWN)
    return AIMessage(dict([*OPENING, *SMALL_TALK]).get(question, UNKNOWN))


def summarizer_script(messages: Sequence[BaseMessage]) -> AIMessage:
    """The summarizer's answer: what a few patterns find, as operations on the ledger."""
    heard = re.findall(
        r'<message id="([^"]+)" from="(\w+)">\n(.*?)\n</message>', messages[-1].text, re.DOTALL
    )
    operations = [
        {"field": field, "op": op, "key": key, "value": value, "source_ids": [name]}
        for name, speaker, text in heard
        for origin, field, op, key, pattern in _PATTERNS
        for value in re.findall(pattern, html.unescape(text))
        if origin == speaker
    ]
    call = ToolCall(name="Patch", args={"ops": operations}, id="patch")
    return AIMessage("", tool_calls=[call])
