"""Which part of which value lies where: the package rule `placement`, and what it stands on."""
