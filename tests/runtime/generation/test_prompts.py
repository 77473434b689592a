"""Prompts to ids with an artifact's own files: tokenizer, chat template, generation settings."""

import json
import sys

import pytest
from decoder_support import VOCABULARY, train_tokenizer, unloaded

from edgex.errors import ArtifactError, RunError, TargetUnavailable
from edgex.runtime.generation.chat import render_chat
from edgex.runtime.generation.prompts import PromptReader
from edgex.runtime.generation.sampling import GREEDY, Sampling
from edgex.runtime.generation.settings import read_generation_settings

TEMPLATE = """\
{%- for message in messages %}
{{ bos_token }}{{ message.role }}: {{ message['content'] | trim }}{{ eos_token }}
{% endfor -%}
{% if add_generation_prompt %}assistant:{% endif %}"""
CONFIG = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "model_max_length": 10**30}
MESSAGES = [{"role": "system", "content": "be brief "}, {"role": "user", "content": "für <jeden>?"}]
RENDERED = "<s>system: be brief</s>\n<s>user: für <jeden>?</s>\nassistant:"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json").read_text()


def artifact_with(folder, **files):
    names = {"template": "chat_template.jinja", "config": "tokenizer_config.json", "special": "special_tokens_map.json"}
    names |= {"tokenizer": "tokenizer.json", "generation": "generation_config.json"}
    texts = {names[key]: value if isinstance(value, str) else json.dumps(value) for key, value in files.items()}
    return unloaded(folder, files=texts)


@pytest.mark.parametrize(
    "files",
    [
        {"template": TEMPLATE, "config": CONFIG},
        {"config": {**CONFIG, "chat_template": TEMPLATE}},
        {"config": {"chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": TEMPLATE}]},
         "special": {"bos_token": "<s>", "eos_token": "</s>"}},
        # a file of its own counts more
        {"template": TEMPLATE, "config": {**CONFIG, "chat_template": "other"}},
    ],
)  # fmt: skip
def test_messages_become_the_text_of_the_template(files, tmp_path):
    assert render_chat(artifact_with(tmp_path, **files), MESSAGES) == RENDERED


def test_templates_have_what_those_of_the_transformers_library_have(tmp_path):
    template = (
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m | tojson }}{% endfor %}"
        "{% generation %}said{% endgeneration %}{{ strftime_now('%%') }}{{ {'a': 'ü<'} | tojson(indent=1) }}"
    )
    found = render_chat(artifact_with(tmp_path, template=template), MESSAGES)
    assert found == '{"role": "user", "content": "für <jeden>?"}said%{\n "a": "ü<"\n}'


@pytest.mark.parametrize(
    ("template", "kind", "why"),
    [
        ("{% for %}", ArtifactError, "Expected an expression"),
        ("{{ raise_exception('roles must alternate') }}", RunError, "roles must alternate"),
        ("{{ messages[0].content.nothing.more }}", RunError, "nothing"),
        ("{{ messages + 1 }}", RunError, "can only concatenate"),
        # what a stranger's template must not reach
        ("{{ ''.__class__.__mro__ }}", RunError, "unsafe"),
        ("{{ messages.append(1) }}", RunError, "unsafe|not safely callable"),
        ("{% include 'manifest.json' %}", RunError, "no loader"),
        ("{{ range(10**9) | list }}", RunError, "Range too big"),
    ],
)
def test_templates_that_are_refused(template, kind, why, tmp_path):
    with pytest.raises(kind) as caught:
        render_chat(artifact_with(tmp_path, template=template), MESSAGES)
    assert caught.match("template") and __import__("re").search(why, caught.value.why), caught.value.why


@pytest.mark.parametrize("files", [{}, {"config": CONFIG}, {"config": {"chat_template": []}}])
def test_no_template(files, tmp_path):
    with pytest.raises(ArtifactError, match="carries no chat template"):
        render_chat(artifact_with(tmp_path, **files), MESSAGES)


def test_prompts_of_all_kinds(tokenizer, tmp_path):
    artifact = artifact_with(tmp_path, tokenizer=tokenizer, template="<s>{{ messages[0].content }}</s>")
    reader = PromptReader(artifact, VOCABULARY)
    ids = reader.encode("für jeden")
    assert reader.tokenizer.decode(ids) == "für jeden"
    assert reader.encode([{"role": "user", "content": "für jeden"}]) == [0, *ids, 1]
    assert reader.encode([5, 6]) == [5, 6] and reader.encode([]) == []
    with pytest.raises(RunError, match="the prompt is empty"):
        reader.encode("")


def test_a_tokenizer_of_another_model_is_refused(tokenizer, tmp_path):
    largest = max(json.loads(tokenizer)["model"]["vocab"].values())
    artifact = artifact_with(tmp_path, tokenizer=tokenizer)
    assert PromptReader(artifact, largest + 1).tokenizer is not None
    with pytest.raises(RunError, match=f"ids up to {largest}, the model's vocabulary ends at {largest - 1}"):
        PromptReader(artifact, largest).need_tokenizer()


@pytest.mark.parametrize("text", ["{}", "not json", '{"model": {"type": "BPE"}}'])
def test_what_is_no_tokenizer(text, tmp_path):
    with pytest.raises(ArtifactError, match="no tokenizer"):
        PromptReader(artifact_with(tmp_path, tokenizer=text), VOCABULARY).need_tokenizer()


def test_without_a_tokenizer_ids_are_named(tokenizer, tmp_path):
    artifact = artifact_with(tmp_path)
    assert PromptReader(artifact, VOCABULARY).tokenizer is None
    with pytest.raises(ArtifactError, match=r"carries no tokenizer\.json") as caught:
        PromptReader(artifact, VOCABULARY).encode("text")
    assert "--ids" in caught.value.fix
    (tmp_path / "own.json").write_text(tokenizer)
    assert PromptReader(artifact, VOCABULARY, tmp_path / "own.json").encode("text")


def test_without_the_package_its_extra_is_named(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(TargetUnavailable) as caught:
        PromptReader(artifact_with(tmp_path, tokenizer=tokenizer), VOCABULARY).need_tokenizer()
    assert caught.value.fix == "pip install 'edgex-toolchain[text]'"


@pytest.mark.parametrize(
    ("config", "sampling", "ignored"),
    [
        ({}, GREEDY, ()),
        # without do_sample, a temperature says nothing
        ({"temperature": 0.6, "top_p": 0.9}, GREEDY, ()),
        ({"do_sample": True}, Sampling(1.0, 50, 1.0), ()),
        ({"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}, Sampling(0.6, 20, 0.95), ()),
        ({"do_sample": True, "top_k": 0, "repetition_penalty": 1.1}, Sampling(1.0, None, 1.0, 1.1), ()),
        ({"num_beams": 4, "min_p": 0.1, "max_length": 20}, GREEDY, ("num_beams=4", "min_p=0.1")),
        ({"num_beams": 1, "min_p": None, "no_repeat_ngram_size": 0}, GREEDY, ()),
    ],
)
def test_generation_settings(config, sampling, ignored, tmp_path):
    found = read_generation_settings(artifact_with(tmp_path, generation=config))
    assert (found.sampling, found.ignored) == (sampling, ignored)


@pytest.mark.parametrize("config", [{"do_sample": True, "temperature": "hot"}, {"repetition_penalty": True}])
def test_damaged_generation_settings(config, tmp_path):
    with pytest.raises(ArtifactError, match="not a number"):
        read_generation_settings(artifact_with(tmp_path, generation=config))
