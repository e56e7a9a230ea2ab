"""Secrets of Kubernetes, under any key, in YAML and JSON; other kinds of manifests stay."""

import json

import pytest

from helix_assets.redaction import Redactor

REDACTOR = Redactor(b"manifests")
HIDDEN = ("aGVsbG8gd29ybGQ=", "velvet-lamp", "c2Vjb25kIG9uZQ==")

MANIFESTS = {
    "yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\ndata:\n  foo: aGVsbG8gd29ybGQ=\n"
    "stringData:\n  bar.txt: velvet-lamp\n  other: 'c2Vjb25kIG9uZQ=='\n",
    "data first": "apiVersion: v1\ndata:\n  foo: aGVsbG8gd29ybGQ=\n  bar: velvet-lamp # old\n  baz: c2Vjb25kIG9uZQ==\n"
    "kind: Secret\nmetadata:\n  name: a\n",
    "a block of text": "kind: Secret\nstringData:\n  app.conf: |\n    first aGVsbG8gd29ybGQ=\n    then velvet-lamp\n"
    "  end: c2Vjb25kIG9uZQ==\ntype: Opaque\n",
    "a list": "items:\n- data:\n    foo: aGVsbG8gd29ybGQ=\n    bar: velvet-lamp\n    baz: c2Vjb25kIG9uZQ==\n"
    "  kind: Secret\n- data:\n    keep: stays-1\n  kind: ConfigMap\n",
    "numbered": "     1→kind: Secret\n     2→data:\n     3→  foo: aGVsbG8gd29ybGQ=\n     4→  bar: velvet-lamp\n"
    "     5→  baz: c2Vjb25kIG9uZQ==\n",
    "json": json.dumps(
        {"kind": "Secret", "metadata": {"a": {"b": "c"}}, "data": dict(zip("abc", HIDDEN, strict=True))}, indent=2
    ),
    "json in a list": json.dumps(
        {
            "items": [
                {"data": {"keep": "stays-1"}, "kind": "ConfigMap", "metadata": {"x": {}}},
                {"data": dict(zip("abc", HIDDEN, strict=True)), "kind": "Secret", "metadata": {"x": {}}},
            ]
        }
    ),
}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=list(MANIFESTS))
def test_values_of_a_secret_go_under_any_key(manifest: str) -> None:
    for form in (manifest, json.dumps({"p": manifest}), json.dumps({"o": json.dumps({"p": manifest})})):
        redacted = REDACTOR.text(form).text
        assert [value for value in HIDDEN if value in redacted] == []
        assert ("stays-1" in redacted) == ("stays-1" in manifest)


def test_other_documents_certificates_and_templates_stay() -> None:
    for text in (
        "kind: Secret\nmetadata:\n  name: a\n---\nkind: ConfigMap\ndata:\n  foo: aGVsbG8gd29ybGQ=\n",
        "kind: Secret\ndata:\n  tls.crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t\n",
        "kind: Secret\nstringData:\n  a: {{ .Values.password }}\n  b: ${DB_PASSWORD}\n  c: <your-token>\n",
        "kind: ExternalSecret\ndata:\n  - secretKey: velvet-lamp\n",
    ):
        assert REDACTOR.text(text).text == text
