"""A web site with Django: ``pip install django``.

    python examples/frameworks/django_orders.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.

Django's views run in threads, and so do the blocking clients of ``ottla.sync``: one producer serves
all of them. A site makes it in ``AppConfig.ready``; a server that forks must make it after that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import django
from django.conf import settings
from django.http import JsonResponse
from django.test import Client
from django.urls import path

import ottla
import ottla.sync
from ottla.serializers import JSON, TEXT

if TYPE_CHECKING:
    from django.http import HttpRequest

urlpatterns: list[object] = []


def views_of(producer: ottla.sync.Producer[str, dict[str, int]]) -> list[object]:
    """The addresses of the site."""

    def order(request: HttpRequest, customer: str) -> JsonResponse:
        cents = int(request.POST["cents"])
        stored = producer.send("orders", {"cents": cents}, customer).result()
        return JsonResponse({"offset": stored.offset}, status=201)

    return [path("orders/<str:customer>", order)]


def main(bootstrap: str) -> None:
    """Send two orders to the site, and read what it has written."""
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="of an example")
    django.setup()
    with ottla.sync.Admin(bootstrap) as admin:
        admin.create_topic(ottla.NewTopic("orders", 1, 1))
    with ottla.sync.Producer(
        bootstrap, key_serializer=TEXT.encode, value_serializer=JSON.encode
    ) as producer:
        urlpatterns[:] = views_of(producer)
        for cents in (1999, 501):
            answer = Client().post("/orders/ada", {"cents": cents})
            print(answer.status_code, answer.json())
            # -> 201 {'offset': 0}
            # -> 201 {'offset': 1}
    with ottla.sync.Consumer(
        bootstrap,
        offset_reset="earliest",
        key_deserializer=TEXT.decode,
        value_deserializer=JSON.decode,
    ) as consumer:
        consumer.assign([ottla.TopicPartition("orders", 0)])
        for record in consumer:
            print(record.key, record.value)
            # -> ada {'cents': 1999}
            # -> ada {'cents': 501}
            if record.offset == 1:
                break


if __name__ == "__main__":
    cluster = ottla.Cluster()
    main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers)
    cluster.stop()
