# The service as an image:
#   docker build -t sonline .
#   docker run --rm -v sonline:/data sonline token add --data /data --scope admin
#   docker run -v sonline:/data -p 8765:8765 sonline
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --wheel-dir /wheels "/source[serve,arrow]"

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels "sonline[serve,arrow]" \
  && rm -rf /wheels && useradd --system --create-home --home-dir /data sonline
USER sonline
VOLUME /data
EXPOSE 8765
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8765/readyz')"]
ENTRYPOINT ["sonline"]
CMD ["serve", "--data", "/data", "--host", "0.0.0.0"]
