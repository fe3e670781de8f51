"""The calculator, and the rollout in which the model may call it."""

from __future__ import annotations

import json
import logging
import re

from paddock import (
    ChatCompletionSample,
    PluginContext,
    RolloutInferenceProxy,
    RolloutResult,
    rollout,
)

MAX_CALLS = 3
"""Model calls of a rollout: one to call the tool, one to answer, one to spare."""

EXPRESSION = re.compile(r"([0-9]{1,9})\s*([-+*])\s*([0-9]{1,9})")

log = logging.getLogger("calculator")


def calculate(arguments: str) -> str:
    """The tool: `{"expression": "37*48"}` gives `1776`, anything else says what is wrong.

    The model writes the arguments, so nothing of them is ever evaluated as code.
    """
    try:
        expression = json.loads(arguments)["expression"]
    except (ValueError, KeyError, TypeError):
        return "error: no expression"
    found = EXPRESSION.fullmatch(expression) if isinstance(expression, str) else None
    if found is None:
        return "error: not a op b"
    a, b = int(found[1]), int(found[3])
    return str({"+": a + b, "-": a - b, "*": a * b}[found[2]])


@rollout
def solve(
    context: PluginContext, proxy: RolloutInferenceProxy, sample: ChatCompletionSample
) -> RolloutResult:
    """Lets the model call the calculator until it answers."""
    client = proxy.rollout_client()
    messages = [dict(message) for message in sample.messages]
    results: list[str] = []
    for _ in range(MAX_CALLS):
        completion = client.chat.completions.create(
            model="policy", messages=messages, tools=sample.tools
        )
        reply = completion.choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            break
        for call in reply.tool_calls:
            if call.function.name == "calc":
                result = calculate(call.function.arguments)
            else:
                result = "error: no such tool"
            results.append(result)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    else:
        log.info("no answer after %d model calls", MAX_CALLS)
    return RolloutResult(extra={"results": results})
