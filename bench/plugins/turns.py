"""A rollout that waits for the model three times, as agents do."""

from paddock import RolloutResult, rollout


@rollout
async def three_turns(context, proxy, sample):
    """Asks three times, each request with the answers before it."""
    client = proxy.async_rollout_client()
    messages = [dict(message) for message in sample.messages]
    for _ in range(3):
        completion = await client.chat.completions.create(model="policy", messages=messages)
        messages.append(completion.choices[0].message.model_dump())
        messages.append({"role": "user", "content": "and then?"})
    return RolloutResult()
