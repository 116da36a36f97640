"""verl: an agent loop of several turns. The policy answers, the kernel is judged, the feedback is the next user turn.

Name it in a file, and the file in the trainer's configuration
(``actor_rollout_ref.rollout.agent.agent_loop_config_path``, ``…default_agent_loop=ptxgym``)::

    - name: ptxgym
      _target_: ptxgym.integrations.verl_agent_loop.KernelAgentLoop
      settings: {device: simulator, feedback_tokens: 800}

A trajectory that this machine could not judge gets no token into the loss: its mask is 0 throughout, its score 0 and
its ``valid`` 0. Its group's mean still counts the 0; filter by ``valid`` where that matters.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from ptxgym.integrations.episode import Episode, EpisodeSettings
from ptxgym.integrations.extras import missing_extra
from ptxgym.integrations.verl import scores

try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("verl", "cachetools", "fastapi", "uvicorn"):
        raise
    raise missing_extra(error.name or "verl", "verl") from None


class KernelAgentLoop(AgentLoopBase):
    """Plays a trajectory against the rollout's server.

    Args:
        *args: As verl gives them.
        settings: :class:`ptxgym.integrations.episode.EpisodeSettings` by name.
        **kwargs: As verl gives them.
    """

    def __init__(self, *args: Any, settings: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = EpisodeSettings.of({"tokenizer": self.tokenizer, **(settings or {})})
        self.room = self.rollout_config.response_length

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play one row of the data to its end, or until the response is full."""
        episode = await asyncio.to_thread(Episode, self.settings.for_row(_told(row)))
        try:
            return await self._play(episode, list(row["raw_prompt"]), sampling_params)
        finally:
            episode.close()

    async def _play(
        self, episode: Episode, messages: list[dict[str, Any]], sampling_params: dict[str, Any]
    ) -> AgentLoopOutput:
        request, seconds = uuid4().hex, {"generate_sequences": 0.0, "tool_calls": 0.0}
        tokens = await self.ct_build_initial_tokens(messages)
        mask: list[int] = []
        logprobs: list[float] | None = None
        while True:
            start = time.monotonic()
            output = await self.server_manager.generate(
                request_id=request, prompt_ids=tokens, sampling_params=sampling_params
            )
            seconds["generate_sequences"] += time.monotonic() - start
            given = output.log_probs or None
            merged, mask, logprobs = await self.ct_merge_assistant_token(
                tokens, output.token_ids, mask, logprobs if logprobs or not given else [], assistant_logprobs=given
            )
            tokens = merged.token_ids
            text = self.tokenizer.decode(output.token_ids, skip_special_tokens=True)
            start = time.monotonic()
            turn = await asyncio.to_thread(episode.answer, text)
            seconds["tool_calls"] += time.monotonic() - start
            if turn.done or len(mask) >= self.room:
                break
            before = [*messages, {"role": "assistant", "content": text}]
            messages = [*before, {"role": "user", "content": turn.feedback}]
            merged, longer, more = await self.ct_merge_context_msg(before, messages, tokens, mask, logprobs)
            if len(longer) >= self.room:  # no room for the feedback and an answer to it
                break
            tokens, mask, logprobs = merged.token_ids, longer, more
        return self._output(episode, tokens, mask, logprobs, AgentLoopMetrics(**seconds))

    def _output(
        self,
        episode: Episode,
        tokens: list[int],
        mask: list[int],
        logprobs: list[float] | None,
        metrics: AgentLoopMetrics,
    ) -> AgentLoopOutput:
        told, begins = scores(episode), len(tokens) - len(mask)
        return AgentLoopOutput(
            prompt_ids=tokens[:begins],
            response_ids=tokens[begins:][: self.room],
            response_mask=(mask if episode.valid else [0] * len(mask))[: self.room],
            response_logprobs=logprobs[: self.room] if logprobs else None,
            reward_score=told["score"],
            num_turns=2 * len(episode.turns),
            metrics=metrics,
            extra_fields={
                "reward_extra_info": told,
                "turn_scores": [turn.reward for turn in episode.turns],
                "tool_rewards": [],
            },
        )


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of the episode: verl passes the data's columns on, the ground truth among them."""
    truth = (row.get("reward_model") or {}).get("ground_truth")
    return {"task_id": truth, **(row.get("extra_info") or {})}
