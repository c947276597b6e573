"""What a newcomer sees once everything is up."""

from mqueue.core.conf import Conf

TEMPLATE = """
  mqueue is up
    API      {origin}
    docs     {origin}/api/docs/
    admin    {origin}/admin/     (make an account: make superuser)
    health   {origin}/health
    metrics  {metrics}/metrics
    logs     {data}/log/
    SQL      make psql SHARD=0

  A token for every namespace, good for 30 days:

    export TOKEN={token}

  Paste it, then these:

    curl {flags}-H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' {origin}/enqueue \
         -d '{{"namespace": "default", "topic": "hello", "body": {{"text": "my first message"}}}}'

    curl {flags}-H "Authorization: Bearer $TOKEN" '{origin}/dequeue?namespace=default&topic=hello' | tee leased.json

    curl {flags}-H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' {origin}/ack -d @leased.json

  Ctrl-C stops everything.
"""


def banner(conf: Conf, token: str) -> str:
    flags = "-s --cacert " + str(conf.api.tls_cert) + " " if conf.api.tls_cert else "-s "
    return TEMPLATE.format(
        origin=conf.api.origin, metrics=conf.api.metrics_origin, data=conf.data, token=token, flags=flags
    )
