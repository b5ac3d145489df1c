# syntax=docker/dockerfile:1
# A static binary on a base without a shell, run as nobody. Build for other platforms with
# docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 .
ARG GO_VERSION=1.26
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=development
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /nodekeep ./cmd/nodekeep

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /nodekeep /nodekeep
USER 65532:65532
ENTRYPOINT ["/nodekeep"]
