# syntax=docker/dockerfile:1
# The image holds one file: the static binary.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /proa ./cmd/proa

FROM scratch
COPY --from=build /proa /proa
EXPOSE 6443
VOLUME /var/lib/proa
ENTRYPOINT ["/proa"]
CMD ["server", "--data-dir", "/var/lib/proa", "--listen", "0.0.0.0:6443"]
