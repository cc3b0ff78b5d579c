// `node journey.ts CLIENT ADDRESS BUCKET`, the token in HEADRACE_TOKEN: the main journey, by the generated modules alone.
//
// CLIENT is the generated index.ts. It prints what it saw as JSON.

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [client, address, bucket] = process.argv.slice(2);
const generated = await import(pathToFileURL(client).href);

const NAME = "generated-typescript";
const SECONDS = 60;
const BODY = Uint8Array.from({ length: 256 }, (_, value) => value);

const configuration = new generated.Configuration({ basePath: address, accessToken: process.env.HEADRACE_TOKEN });
const models = new generated.ModelsApi(configuration);
const configs = new generated.EndpointConfigsApi(configuration);
const endpoints = new generated.EndpointsApi(configuration);
const invocations = new generated.InvocationsApi(configuration);
const requests = new generated.AsyncRequestsApi(configuration);

/** What `look` finds once it is so. */
async function until<T>(look: () => Promise<T>, isSo: (found: T) => boolean): Promise<T> {
  const deadline = Date.now() + SECONDS * 1000;
  for (;;) {
    const isLast = Date.now() >= deadline;
    const found = await look();
    if (isSo(found)) return found;
    assert.ok(!isLast, JSON.stringify(found));
    await pause(200);
  }
}

/** A model, a configuration with a fallback, and the endpoint. */
async function make(): Promise<void> {
  const wish = { createModelRequest: { modelName: NAME, primaryContainer: { image: "headrace/reference:latest" } } };
  const made = await models.createModel(wish);
  assert.match(made.modelArn, /^arn:aws:sagemaker:/);
  const refused = await models.createModel(wish).then(() => null, (error: unknown) => error);
  assert.ok(refused instanceof generated.ResponseError);
  assert.equal(refused.response.status, 400);
  assert.equal((await refused.response.json()).__type, "ValidationException");
  await configs.createEndpointConfig({
    createEndpointConfigRequest: {
      endpointConfigName: NAME,
      productionVariants: [
        {
          variantName: "main",
          modelName: NAME,
          initialInstanceCount: 1,
          instancePools: [
            { instanceType: "ml.g5.2xlarge", priority: 1 },
            { instanceType: "ml.m5.large", priority: 2 },
          ],
        },
      ],
      asyncInferenceConfig: {
        outputConfig: { s3OutputPath: `s3://${bucket}/out`, s3FailurePath: `s3://${bucket}/failed` },
      },
    },
  });
  await endpoints.createEndpoint({ createEndpointRequest: { endpointName: NAME, endpointConfigName: NAME } });
}

/** Queue a request with its body inline, wait for it, and fetch its answer. */
async function call(): Promise<Uint8Array> {
  const accepted = await invocations.invokeEndpointAsyncRaw({
    endpointName: NAME,
    body: new Blob([BODY]),
    xAmznSageMakerContentType: "application/x-bytes",
  });
  assert.equal(accepted.raw.status, 202);
  assert.match(accepted.raw.headers.get("x-amzn-sagemaker-outputlocation") ?? "", /^s3:/);
  const { inferenceId } = await accepted.value();
  const page = await requests.listAsyncRequests({ endpointName: NAME, inferenceId });
  assert.equal(page.asyncRequests.length, 1);
  const requestId = page.asyncRequests[0].requestId;
  const story = await until(
    () => requests.describeAsyncRequest({ requestId }),
    (found: any) => found.asyncRequest.status === "completed",
  );
  assert.ok(story.timeline.at(-1).sentence);
  const output = await requests.getAsyncRequestOutput({ requestId });
  return new Uint8Array(await output.arrayBuffer());
}

/** Delete everything and see it gone. */
async function remove(): Promise<void> {
  await endpoints.deleteEndpoint({ endpointName: NAME });
  await until(
    () => endpoints.listEndpoints({ nameContains: NAME }),
    (found: any) => found.endpoints.length === 0,
  );
  await configs.deleteEndpointConfig({ endpointConfigName: NAME });
  await models.deleteModel({ modelName: NAME });
}

await make();
const described = await until(
  () => endpoints.describeEndpoint({ endpointName: NAME }),
  (found: any) => found.endpointStatus === "InService",
);
assert.ok(described.creationTime instanceof Date);
const told = await endpoints.explainEndpoint({ endpointName: NAME });
const events = await endpoints.listEndpointEvents({ endpointName: NAME });
const answer = await call();
await remove();
console.log(
  JSON.stringify({
    created_at: described.creationTime.toISOString(),
    pools: described.productionVariants[0].instancePools.map((pool: any) => ({
      InstanceType: pool.instanceType,
      CurrentInstanceCount: pool.currentInstanceCount,
    })),
    ladder: told.variants[0].ladder.map((step: any) => step.rung.instanceType),
    reasons: events.events.map((event: any) => event.reason),
    answer: Buffer.from(answer).toString("hex"),
    is_same: Buffer.compare(Buffer.from(answer), Buffer.from(BODY)) === 0,
  }),
);
