# One static binary and nothing else, run as nobody. `make docker-image` builds it and stamps version and commit; `make image` makes the
# same image without Docker, for several platforms. For several platforms with Docker:
# docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 .
ARG GO_VERSION=1.26.8
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION COMMIT
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" -o /nodekeep ./cmd/nodekeep

FROM scratch
ARG VERSION COMMIT
LABEL org.opencontainers.image.title="nodekeep" \
      org.opencontainers.image.description="Node labels and taints that survive the Node" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /nodekeep /nodekeep
USER 65532:65532
ENTRYPOINT ["/nodekeep"]
