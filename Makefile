# Versions of tools stand here and nowhere else.
GOLANGCI_LINT_VERSION = v2.15.0
GOVULNCHECK_VERSION   = v1.8.0
HELM_VERSION          = v4.3.1

BIN      = $(CURDIR)/.bin
HELM     = $(BIN)/helm-$(HELM_VERSION)
CERTMANAGER = $(BIN)/cert-manager
DEMO     = $(CURDIR)/.demo
UNIT     = $(shell go list ./... | grep -v /test/)
FUZZTIME = 10s
SOAK     = 30m
NODES    = 100000
MANIFEST = manifests/nodekeep.yaml

# The tests that ask for NODEKEEP_LONG_FAULTS.
LONG_FAULTS = NeverAnswered|RecordsStall|AnHourOff

.PHONY: help
help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: build
build: ## the nodekeep binary, in .bin
	CGO_ENABLED=0 go build -o $(BIN)/nodekeep ./cmd/nodekeep

.PHONY: controlplane
controlplane: ## etcd, kube-apiserver and friends for tests and demo (about 5 minutes the first time)
	@test/controlplane/build.sh

.PHONY: demo
demo: controlplane ## the whole story on a real control plane, in under a minute
	@go run ./test/demo story

.PHONY: up
up: controlplane ## start a control plane with nodekeep on it and leave it running
	@go run ./test/demo up --dir $(DEMO)

.PHONY: down
down: ## stop what `make up` started
	@go run ./test/demo down --dir $(DEMO)

.PHONY: test
test: controlplane $(HELM) $(CERTMANAGER) ## everything, on a real API server
	go test -race $(UNIT)
	go test -p 1 -count=1 -timeout 30m ./test/... # one control plane at a time: a webhook has a second to answer
	@$(MAKE) --no-print-directory skipped
	@$(MAKE) --no-print-directory fuzz

.PHONY: skipped
skipped: ## why tests may skip; go test tells that with -v only
	@grep -rnoE --include='*_test.go' 't\.Skipf?\(.*' . | sed -E 's,^\./(.*):[0-9]+:t\.Skipf?\((.*)\)$$,may skip: \1: \2,'

.PHONY: unit
unit: ## what needs no control plane
	go test -race $(UNIT)
	@echo "left out: $(filter-out $(UNIT),$(shell go list ./...))"
	@echo "          they need a control plane; make test builds one and runs everything"

.PHONY: fuzz
fuzz: ## every fuzzer for FUZZTIME each
	@.ci/fuzz $(FUZZTIME)

.PHONY: test-faults
test-faults: controlplane $(HELM) ## the faults that take minutes to show
	NODEKEEP_LONG_FAULTS=1 go test -count=1 -timeout 30m -v -run '$(LONG_FAULTS)' ./test/faults

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what is used; asks the public database
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

.PHONY: soak
soak: controlplane ## random faults for SOAK (30m), checked after each round against an independent model
	NODEKEEP_SOAK=$(SOAK) go test -count=1 -v -timeout 0 -run '^TestALongTimeOfRandomFaults$$' ./test/differential

.PHONY: bench
bench: controlplane ## the handler, then CREATEs on a real API server, each beside one that does nothing (some minutes)
	go test -run '^$$' -bench . -benchmem ./webhook ./policy
	go run ./test/bench create
	go run ./test/bench growth -nodes 10000

.PHONY: bench-scale
bench-scale: controlplane ## NODES Nodes (100000: some 20 GiB of memory, half an hour): growth, memory, capture, storm, start, failover
	GOMEMLIMIT=14GiB go run ./test/bench scale -nodes $(NODES) # keeps kube-apiserver within 24 GiB; nodekeep is far below it

.PHONY: tools
tools: $(HELM) $(CERTMANAGER) ## the pinned Helm and cert-manager, in .bin

.PHONY: manifests
manifests: $(HELM) ## the static files of manifests/, rendered from the chart
	@manifests/render.sh $(HELM) manifests

.PHONY: manifests-check
manifests-check: $(HELM) ## whether they are what the chart renders
	@manifests/render.sh $(HELM) --check

.PHONY: uninstall
uninstall: build ## take nodekeep off the cluster that kubectl points at, gates first; the records stay
	$(BIN)/nodekeep uninstall
	kubectl delete --ignore-not-found -l app.kubernetes.io/component!=records -f $(MANIFEST)
	@echo "what is remembered is still there; to forget it: kubectl delete namespace nodekeep-system"

.PHONY: lint
lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) ## style, and the arrows of the design
	$< run ./...
	go mod tidy -diff
	cd test/controlplane && go mod tidy -diff
	cd test/certmanager && go mod tidy -diff
	@$(MAKE) --no-print-directory manifests-check

$(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(BIN)/golangci-lint $@

$(HELM):
	GOBIN=$(BIN) CGO_ENABLED=0 go install helm.sh/helm/v4/cmd/helm@$(HELM_VERSION)
	@mv $(BIN)/helm $@

$(CERTMANAGER): $(wildcard test/certmanager/*)
	cd test/certmanager && CGO_ENABLED=0 go build -o $@ .
